package pdl

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An error shows an excerpt of the source line, and in its message perhaps a name or number.
// Sources may hold any bytes, and errors go to terminals. So unprintable characters are written
// as escapes, and long texts are cut.
const (
	shownBefore = 60  // characters before the column
	shownBehind = 60  // characters from the column on
	shownWord   = 100 // characters of a word in a message: no valid name has more
)

// excerpt returns the part of a line around a column, which counts bytes from 1, and the space
// that puts a mark below that column. It cuts off the beginning and the end of the line if they
// are far away.
func excerpt(line string, col int) (shown, space string) {
	at := min(max(col-1, 0), len(line))
	from := at
	for n := 0; from > 0 && n < shownBefore; n++ {
		_, size := utf8.DecodeLastRuneInString(line[:from])
		from -= size
	}
	to := at
	for n := 0; to < len(line) && n < shownBehind; n++ {
		_, size := utf8.DecodeRuneInString(line[to:])
		to += size
	}
	before, behind := printable(line[from:at]), printable(line[at:to])
	if from > 0 {
		before = "…" + before
	}
	if to < len(line) {
		behind += "…"
	}
	// Tabs are kept, so the mark is in place whatever their width is.
	space = strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, before)
	return before + behind, space
}

// printable replaces unprintable characters by escapes, as in a Go string. Tabs stay.
func printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[0])|0x100, 16)[1:])
		case r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		s = s[size:]
	}
	return b.String()
}

// shortened returns the beginning of a word of the source, and "…" if it was cut.
func shortened(s string) string {
	n := 0
	for i := range s {
		if n == shownWord {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
