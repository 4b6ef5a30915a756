package pdl

import (
	"slices"
	"strings"
)

// A Pos is a place in the source: line and column count from 1, columns in bytes.
type Pos struct{ Line, Col int }

func (p Pos) before(q Pos) bool { return p.Line < q.Line || p.Line == q.Line && p.Col < q.Col }

// A kind is what a token is: one of these, or a keyword or operator, which is its own kind.
type kind string

const (
	kindEOF     kind = "end of file"
	kindIdent   kind = "name"
	kindInteger kind = "number"
	kindString  kind = "string"
	kindBad     kind = "unknown character" // reported by the scanner
)

// wordBehindPass is a word there, and a name elsewhere: it is newer than programs that may have such a name.
const wordBehindPass = "AFTER"

// keywords are the words that cannot be names. Case does not matter; this is how the formatter writes them.
var keywords = []string{
	"AND", "AS", "AT", "AWAIT", "BEGIN", "CLEAR", "CLOCK", "CONST", "DELIVER", "DISPLAY", "DO", "DROP", "ELSE", "END", "FLAG",
	"FROM", "GET", "IF", "INTO", "LEN", "LOCK", "MESSAGE", "NOT", "OFFSET", "OR", "PACKET", "PACKETBYTE", "PACKETLEN", "PASS",
	"PROGRAM", "SEND", "SET", "SOURCE", "STOP", "THEN", "TO", "TRIGGERS", "VAR", "WHILE",
}

// operators, the longer ones before those that they begin with.
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
	end   Pos    // behind it
	text  string // as written; of a string, what is between the quotes
	num   int64  // of a number
	least bool   // it is 9223372036854775808, which is a number behind a minus alone
	bad   bool   // it is no number, as the scanner has reported
}

// what says what a token is, for messages.
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

// quoted is what, with marks around what could be mistaken for punctuation.
func (t token) quoted() string {
	if t.kind == kind(t.text) && !isKeyword(t.text) {
		return "'" + t.text + "'"
	}
	return t.what()
}

// A comment runs from its # to the end of the line.
type comment struct {
	pos   Pos
	text  string // with the #
	alone bool   // nothing but space stands before it
}
