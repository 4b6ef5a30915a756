package pdl

import (
	"bytes"
	"strconv"
	"strings"
)

// A scanner cuts the source into tokens. It collects the comments separately, for the formatter.
type scanner struct {
	src      string
	at       int
	line     int
	lineAt   int // offset of the current line
	report   *report
	comments []comment
}

// unmarked returns a source without a leading byte order mark, which some editors write.
func unmarked(src []byte) []byte { return bytes.TrimPrefix(src, []byte("\ufeff")) }

func newScanner(src []byte, r *report) *scanner {
	return &scanner{src: string(unmarked(src)), line: 1, report: r}
}

func (s *scanner) pos() Pos { return Pos{s.line, s.at - s.lineAt + 1} }

// next returns the next token. At the end it returns kindEOF, also if called again.
func (s *scanner) next() token {
	s.skip()
	t := token{pos: s.pos()}
	if s.at == len(s.src) {
		t.kind, t.end = kindEOF, t.pos
		return t
	}
	switch c := s.src[s.at]; {
	case isLetter(c):
		s.word(&t)
	case isDigit(c):
		s.number(&t)
	case c == '"':
		s.str(&t)
	default:
		s.operator(&t)
	}
	t.end = s.pos()
	return t
}

// skip passes over space and comments.
func (s *scanner) skip() {
	alone := s.at == 0
	for s.at < len(s.src) {
		switch c := s.src[s.at]; c {
		case '\n':
			s.at++
			s.line++
			s.lineAt = s.at
			alone = true
		case ' ', '\t', '\r':
			s.at++
		case '#':
			end := strings.IndexByte(s.src[s.at:], '\n')
			if end < 0 {
				end = len(s.src) - s.at
			}
			s.comments = append(s.comments, comment{s.pos(), strings.TrimRight(s.src[s.at:s.at+end], " \t\r"), alone})
			s.at += end
		default:
			return
		}
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// run takes letters, digits and underscores.
func (s *scanner) run() string {
	from := s.at
	for s.at < len(s.src) && (isLetter(s.src[s.at]) || isDigit(s.src[s.at])) {
		s.at++
	}
	return s.src[from:s.at]
}

func (s *scanner) word(t *token) {
	t.text = s.run()
	t.kind = kindIdent
	if up := strings.ToUpper(t.text); isKeyword(up) {
		t.kind = kind(up)
	}
}

// number reads a decimal or hexadecimal number. A hexadecimal number of 64 bits may be written
// unsigned: it is the word with these bits.
func (s *scanner) number(t *token) {
	t.kind = kindInteger
	t.text = s.run()
	if digits, hex := strings.CutPrefix(strings.ToLower(t.text), "0x"); hex {
		u, err := strconv.ParseUint(digits, 16, 64)
		if err != nil {
			s.report.errorf(t.pos, "%s is no number: expected 0x and 1 to 16 hexadecimal digits", t.text)
			t.bad = true
		}
		t.num = int64(u)
		return
	}
	u, err := strconv.ParseUint(t.text, 10, 64)
	if err != nil || u > 1<<63 {
		s.report.errorf(t.pos, noNumber, t.text)
		t.bad = true
	}
	t.num, t.least = int64(u), u == 1<<63
}

const noNumber = "%s is no number: expected digits, and at most 9223372036854775807"

func (s *scanner) str(t *token) {
	t.kind = kindString
	rest := s.src[s.at+1:]
	end := strings.IndexAny(rest, "\"\n")
	if end < 0 || rest[end] == '\n' {
		if end < 0 {
			end = len(rest)
		}
		s.report.errorf(t.pos, "the string does not end on its line")
		t.kind = kindBad
		t.text = rest[:end]
		s.at += 1 + end
		return
	}
	t.text = rest[:end]
	s.at += end + 2
}

func (s *scanner) operator(t *token) {
	for _, o := range operators {
		if strings.HasPrefix(s.src[s.at:], o) {
			t.kind, t.text = kind(o), o
			s.at += len(o)
			return
		}
	}
	t.kind = kindBad
	from := s.at
	// This skips the rest of a character of several bytes.
	for s.at++; s.at < len(s.src) && s.src[s.at]&0xc0 == 0x80; s.at++ {
	}
	t.text = s.src[from:s.at]
	s.report.errorf(t.pos, "%q does not belong in a program", t.text)
}
