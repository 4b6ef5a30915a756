package pdl

import (
	"slices"
	"strings"
)

// A Pos is a position in the source. Line and column count from 1, columns in bytes.
type Pos struct{ Line, Col int }

func (p Pos) before(q Pos) bool { return p.Line < q.Line || p.Line == q.Line && p.Col < q.Col }

// A kind is the kind of a token: one of the constants below, or the keyword or operator itself.
type kind string

const (
	kindEOF     kind = "end of file"
	kindIdent   kind = "name"
	kindInteger kind = "number"
	kindString  kind = "string"
	kindBad     kind = "unknown character" // reported by the scanner
)

// wordBehindPass is a keyword only after PASS, and a name elsewhere. It is newer than some
// programs, which may use it as a name.
const wordBehindPass = "AFTER"

// keywords are the words that cannot be names, as the formatter writes them. Case does not
// matter.
var keywords = []string{
	"AND", "AS", "AT", "AWAIT", "BEGIN",
	"CLEAR", "CLOCK", "CONST", "DELIVER",
	"DISPLAY", "DO", "DROP", "ELSE", "END", "FLAG",
	"FROM", "GET", "IF", "INTO", "LEN",
	"LOCK", "MESSAGE", "NOT", "OFFSET", "OR", "PACKET",
	"PACKETBYTE", "PACKETLEN", "PASS",
	"PROGRAM", "SEND", "SET", "SOURCE", "STOP", "THEN", "TO", "TRIGGERS", "VAR", "WHILE",
}

// operators lists each operator before its own prefixes.
var operators = []string{
	">>>", "<<", ">>", "<=", ">=", "==", "<>", "!=",
	"=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "~", "(", ")", "[", "]", ",", ";", ":",
}

func isKeyword(word string) bool {
	_, found := slices.BinarySearch(keywords, word)
	return found
}

// A token is a piece of the source.
type token struct {
	kind  kind
	pos   Pos
	end   Pos    // position behind the token
	text  string // as in the source; for a string, the text between the quotes
	num   int64  // value of a number
	least bool   // 9223372036854775808, which is valid only after a minus
	bad   bool   // an invalid number, which the scanner has reported
}

// what returns a description of a token, for messages.
func (t token) what() string {
	switch t.kind {
	case kindEOF:
		return string(t.kind)
	case kindIdent:
		return t.text
	case kindString:
		return `"` + t.text + `"`
	}
	if t.text != "" {
		return strings.ToUpper(t.text)
	}
	return string(t.kind)
}

// quoted returns what, in quotes if it could be mistaken for punctuation.
func (t token) quoted() string {
	if t.kind == kind(t.text) && !isKeyword(t.text) {
		return "'" + t.text + "'"
	}
	return t.what()
}

// A comment runs from its # to the end of the line.
type comment struct {
	pos   Pos
	text  string // including the #
	alone bool   // only space stands before it on its line
}
