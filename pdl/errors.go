package pdl

import (
	"fmt"
	"slices"
	"strings"
)

// An Error is something wrong in a source, or, as a warning, something that will surprise.
type Error struct {
	File    string
	Pos     Pos
	Msg     string
	Warning bool
	text    string // the line of the source
}

// Error says where and what, and shows the line with a mark below.
func (e *Error) Error() string {
	msg := e.Msg
	if e.Warning {
		msg = "warning: " + msg
	}
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Pos.Line, e.Pos.Col, msg)
	if e.text == "" {
		return s
	}
	n := min(e.Pos.Col-1, len(e.text))
	space := strings.Map(func(r rune) rune { // the mark stands right whatever a tab is worth
		if r == '\t' {
			return r
		}
		return ' '
	}, e.text[:n])
	return s + "\n    " + e.text + "\n    " + space + "^"
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
}

func newReport(file string, src []byte) *report {
	return &report{file: file, src: strings.Split(string(src), "\n")}
}

func (r *report) add(pos Pos, warning bool, format string, args ...any) {
	e := &Error{File: r.file, Pos: pos, Msg: fmt.Sprintf(format, args...), Warning: warning}
	if pos.Line <= len(r.src) {
		e.text = strings.TrimRight(r.src[pos.Line-1], " \t\r")
	}
	if !slices.ContainsFunc(r.all, func(o *Error) bool { return o.Pos == pos && o.Msg == e.Msg }) {
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
