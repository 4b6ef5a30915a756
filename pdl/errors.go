package pdl

import (
	"fmt"
	"slices"
	"strings"
)

// An Error is an error in a source, or a warning: something that is likely to surprise.
type Error struct {
	File    string
	Pos     Pos // no column, or no line, where that is 0
	Msg     string
	Warning bool
	text    string // the line of the source
}

// OfLine returns an error about a whole line, or about the whole source if line is 0. text is
// the line.
func OfLine(file string, line int, text, msg string) *Error {
	return &Error{File: file, Pos: Pos{Line: line}, Msg: printable(msg), text: strings.TrimRight(text, " \t\r")}
}

// Error returns the position and the message, followed by the line with a mark below.
func (e *Error) Error() string {
	msg := e.Msg
	if e.Warning {
		msg = "warning: " + msg
	}
	where := e.File
	for _, n := range []int{e.Pos.Line, e.Pos.Col} {
		if n > 0 {
			where += fmt.Sprintf(":%d", n)
		}
	}
	s := where + ": " + msg
	if e.text == "" {
		return s
	}
	shown, space := excerpt(e.text, e.Pos.Col)
	if s += "\n    " + shown; e.Pos.Col > 0 {
		s += "\n    " + space + "^"
	}
	return s
}

// Errors holds all errors of a source, in source order.
type Errors []*Error

// mostShown is the number of errors that Errors.Error prints. Further ones are mostly
// consequences.
const mostShown = 30

// Error returns the texts of the errors, one after the other. It prints at most 30.
func (l Errors) Error() string {
	var b strings.Builder
	for i, e := range l {
		if i == mostShown {
			fmt.Fprintf(&b, "\nand %d more", len(l)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
	}
	return b.String()
}

// A report collects errors and warnings.
type report struct {
	file string
	src  []string // lines
	all  Errors
	seen map[seen]bool
}

// A seen identifies a reported error, so that each is reported once.
type seen struct {
	pos Pos
	msg string
}

func newReport(file string, src []byte) *report {
	return &report{file: file, src: strings.Split(string(unmarked(src)), "\n"), seen: make(map[seen]bool)}
}

func (r *report) add(pos Pos, warning bool, format string, args ...any) {
	for i, a := range args {
		if word, ok := a.(string); ok {
			args[i] = shortened(word)
		}
	}
	e := &Error{File: r.file, Pos: pos, Msg: printable(fmt.Sprintf(format, args...)), Warning: warning}
	if pos.Line <= len(r.src) {
		e.text = strings.TrimRight(r.src[pos.Line-1], " \t\r")
	}
	if s := (seen{pos, e.Msg}); !r.seen[s] {
		r.seen[s] = true
		r.all = append(r.all, e)
	}
}

func (r *report) errorf(pos Pos, format string, args ...any) { r.add(pos, false, format, args...) }

func (r *report) warnf(pos Pos, format string, args ...any) { r.add(pos, true, format, args...) }

// sorted returns errors and warnings separately, each in source order.
func (r *report) sorted() (errors, warnings Errors) {
	slices.SortStableFunc(r.all, func(a, b *Error) int {
		if a.Pos == b.Pos {
			return 0
		}
		if a.Pos.before(b.Pos) {
			return -1
		}
		return 1
	})
	for _, e := range r.all {
		if e.Warning {
			warnings = append(warnings, e)
		} else {
			errors = append(errors, e)
		}
	}
	return errors, warnings
}

// err returns the errors as an error, nil if there are none.
func (r *report) err() error {
	if errors, _ := r.sorted(); len(errors) > 0 {
		return errors
	}
	return nil
}
