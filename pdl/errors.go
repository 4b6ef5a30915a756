package pdl

import (
	"fmt"
	"slices"
	"strings"
)

// An Error is something wrong in a source, or, as a warning, something that will surprise.
type Error struct {
	File    string
	Pos     Pos // without a column or line, if that is 0
	Msg     string
	Warning bool
	text    string // the line of the source
}

// OfLine returns an error about a line as a whole, or with 0 about all of a source. text is the line.
func OfLine(file string, line int, text, msg string) *Error {
	return &Error{File: file, Pos: Pos{Line: line}, Msg: printable(msg), text: strings.TrimRight(text, " \t\r")}
}

// Error says where and what, and shows the line with a mark below.
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

// Errors are all those of a source, in the order of their places.
type Errors []*Error

// mostShown is how many errors are worth printing: the others mostly follow from them.
const mostShown = 30

// Error shows the errors one after the other.
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

// A report collects what is found wrong.
type report struct {
	file string
	src  []string // lines
	all  Errors
	seen map[seen]bool
}

// A seen is what was reported already: what is found twice is reported once.
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

// sorted returns errors and warnings apart, each in the order of the source.
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
