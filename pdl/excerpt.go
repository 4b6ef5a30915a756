package pdl

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What an error shows of a line of the source, and of a name or number in its message. Sources may hold anything, and errors
// go to terminals: so what cannot be printed is written as an escape, and what is long is cut.
const (
	shownBefore = 60  // characters before the column
	shownBehind = 60  // from the column on
	shownWord   = 100 // characters of a word in a message: more than any name may have
)

// excerpt returns what is shown of a line around a column, which counts bytes from 1, and the space that puts a mark below
// that column. The end of the line is cut off if it is far away, and so is its beginning.
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
	space = strings.Map(func(r rune) rune { // the mark stands right whatever a tab is worth
		if r == '\t' {
			return r
		}
		return ' '
	}, before)
	return before + behind, space
}

// printable returns a text whose characters all can be printed: others are written as in a string of Go. A tab stays.
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

// shortened returns the beginning of a word of the source.
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
