package pdl

import (
	"fmt"
	"strings"
)

// Format returns a source in the canonical form: keywords in capitals, names as they were
// declared, four spaces a level, one statement a line. Comments keep their place where the form
// has such a place. A list of declarations with comments inside keeps its lines. The error is of
// type Errors. If there is one, Format returns no source.
func Format(file string, src []byte) ([]byte, error) {
	r := newReport(file, src)
	p := parse(src, r)
	if err := r.err(); err != nil {
		return nil, err
	}
	// This only binds the names to their declarations. The errors are not the formatter's
	// business.
	check(p, newReport(file, src))
	f := &formatter{comments: p.comments}
	f.program(p)
	return []byte(f.b.String()), nil
}

type formatter struct {
	b        strings.Builder
	comments []comment // not yet written
	depth    int
	line     int  // of the source, where the last written text ended
	open     bool // the line is not ended yet
	note     bool // and it is a comment
}

// trailing writes the comments that stand behind the last written text, on its line.
func (f *formatter) trailing(before Pos) {
	for len(f.comments) > 0 && !f.comments[0].alone && f.comments[0].pos.before(before) {
		if f.open && !f.note {
			f.b.WriteString("  " + f.comments[0].text)
			f.endLine()
		} else {
			f.own(f.comments[0].text, f.comments[0].pos.Line)
			f.note = true
		}
		f.line = max(f.line, f.comments[0].pos.Line)
		f.comments = f.comments[1:]
	}
}

// own begins a new line with text.
func (f *formatter) own(text string, line int) {
	f.endLine()
	if f.line > 0 && line > f.line+1 {
		f.b.WriteByte('\n') // one empty line replaces any number
	}
	f.b.WriteString(strings.Repeat("    ", f.depth) + text)
	f.open, f.note, f.line = true, false, line
}

func (f *formatter) endLine() {
	if f.open {
		f.b.WriteByte('\n')
		f.open = false
	}
}

// to writes the comments that stand before a position of the source.
func (f *formatter) to(pos Pos) {
	for len(f.comments) > 0 && f.comments[0].pos.before(pos) {
		if !f.comments[0].alone {
			f.trailing(pos)
			continue
		}
		f.own(f.comments[0].text, f.comments[0].pos.Line)
		f.note = true
		f.comments = f.comments[1:]
	}
}

// put begins a line with the text for a position of the source.
func (f *formatter) put(pos Pos, text string) {
	f.to(pos)
	f.own(text, pos.Line)
}

// add continues the line.
func (f *formatter) add(text string) { f.b.WriteString(text) }

func (f *formatter) program(p *Program) {
	f.put(p.Pos, "PROGRAM "+p.Name+":")
	consts, vars, triggers := p.Consts, p.Vars, p.Triggers
	for i, d := range p.Decls {
		var list []string
		for range d.Items {
			switch d.Keyword {
			case "CONST":
				list = append(list, consts[0].Name+" = "+text(consts[0].Value))
				consts = consts[1:]
			case "VAR":
				list = append(list, declared(vars[0]))
				vars = vars[1:]
			default:
				list = append(list, text(triggers[0].Number))
				triggers = triggers[1:]
			}
		}
		behind := p.Init.Pos
		if i+1 < len(p.Decls) {
			behind = p.Decls[i+1].Pos
		}
		f.declaration(d, list, behind)
	}
	f.put(p.Init.Pos, "BEGIN")
	f.rest(p.Init)
	f.add(";")
	for _, m := range p.Messages {
		f.put(m.Pos, "MESSAGE "+text(m.Trigger)+":")
		for _, b := range m.Blocks {
			f.put(b.Pos, "BEGIN")
			f.rest(b)
			f.add(";")
		}
	}
	f.put(p.end, "END;")
	f.to(Pos{Line: 1 << 30})
	f.endLine()
}

// declaration writes a list on one line. If comments stand in the list, it keeps the lines of
// the source, so that each comment stays with its item. behind is the position where the source
// goes on.
func (f *formatter) declaration(d Decl, list []string, behind Pos) {
	f.put(d.Pos, d.Keyword)
	lines := f.commented(d, behind)
	f.depth++
	for i, item := range list {
		pos := d.Items[i]
		if i > 0 {
			f.add(",")
		}
		broken := i > 0 && pos.Line > d.Items[i-1].Line || len(f.comments) > 0 && f.comments[0].pos.before(pos)
		if lines && broken {
			f.to(pos)
			f.own(item, pos.Line)
		} else {
			f.add(" " + item)
		}
	}
	f.depth--
	f.add(";")
	f.line = max(f.line, d.End.Line)
}

// commented reports whether a declaration has several lines, and a comment that belongs to one
// of them.
func (f *formatter) commented(d Decl, behind Pos) bool {
	last := d.Items[len(d.Items)-1]
	if len(f.comments) == 0 || d.Pos.Line == d.End.Line {
		return false
	}
	c := f.comments[0]
	return c.pos.before(last) || !c.alone && c.pos.before(behind) && c.pos.Line <= d.End.Line
}

func declared(v *Var) string {
	if v.Size == nil {
		return v.Name
	}
	return v.Name + "[" + text(v.Size) + "]"
}

// rest writes a block from behind its BEGIN.
func (f *formatter) rest(b *Block) {
	f.depth++
	for _, s := range b.Stmts {
		f.stmt(s, true)
		f.add(";")
	}
	f.to(b.End)
	f.depth--
	f.put(b.End, "END")
}

// stmt writes a statement. If fresh is true, it begins a line; else it goes on behind THEN, ELSE
// or DO.
func (f *formatter) stmt(s Stmt, fresh bool) {
	begin := func(text string) {
		if fresh {
			f.put(s.Start(), text)
		} else {
			f.add(text)
		}
	}
	switch s := s.(type) {
	case *Block:
		begin("BEGIN")
		f.rest(s)
	case *Assign:
		begin(text(s.Target) + " = " + text(s.Value))
	case *If:
		begin("IF " + text(s.Cond) + " THEN")
		f.body(s.Then)
		if s.Else != nil {
			f.elseBranch(s)
		}
	case *While:
		begin("WHILE " + text(s.Cond) + " DO")
		f.body(s.Body)
	case *Send:
		line := fmt.Sprintf("SEND %s LEN %s AS %s TO %s", text(s.What), text(s.Len), text(s.As), text(s.To))
		if s.At != nil {
			line += " AT " + text(s.At)
		}
		if s.All {
			line += " AT *"
		}
		begin(line)
	case *Move:
		begin(moveText(s))
	case *Act:
		begin(strings.TrimRight(s.What+" "+text(s.X), " "))
	}
}

// body writes the statement behind THEN or DO: a block on the same line, any other statement on
// the next.
func (f *formatter) body(s Stmt) {
	if b, ok := s.(*Block); ok {
		f.add(" ")
		f.line = max(f.line, b.Pos.Line)
		f.stmt(b, false)
		return
	}
	f.depth++
	f.stmt(s, true)
	f.depth--
}

func (f *formatter) elseBranch(s *If) {
	_, afterBlock := s.Then.(*Block)
	if afterBlock {
		f.add(" ELSE")
	} else {
		f.line = s.ElsePos.Line // no empty line before it
		f.put(s.ElsePos, "ELSE")
	}
	if inner, chain := s.Else.(*If); chain {
		f.add(" ")
		f.line = max(f.line, inner.Pos.Line)
		f.stmt(inner, false)
		return
	}
	f.body(s.Else)
}

func moveText(s *Move) string {
	switch {
	case s.FromPacket:
		return fmt.Sprintf("GET %s OFFSET %s FROM PACKET LEN %s", text(s.What), text(s.Offset), text(s.Len))
	case s.Get:
		return fmt.Sprintf("GET %s OFFSET %s FROM %s LEN %s",
			text(s.What), text(s.Offset), text(s.Segment), text(s.Len))
	}
	return fmt.Sprintf("DELIVER %s OFFSET %s INTO %s LEN %s",
		text(s.What), text(s.Offset), text(s.Segment), text(s.Len))
}

// text returns the text of an expression, empty for nil.
func text(e Expr) string {
	switch e := e.(type) {
	case *Number:
		return e.Text
	case *Ref:
		name := e.Name
		switch {
		case e.v != nil:
			name = e.v.Name
		case e.c != nil:
			name = e.c.Name
		}
		if e.Index != nil {
			name += "[" + text(e.Index) + "]"
		}
		return name
	case *Packet:
		if e.Byte {
			return "PACKETBYTE[" + text(e.Index) + "]"
		}
		return "PACKET[" + text(e.Index) + "]"
	case *Builtin:
		return e.Name
	case *LockTest:
		return "LOCK(" + text(e.X) + ")"
	case *Unary:
		if e.Op == "NOT" {
			return "NOT " + text(e.X)
		}
		return e.Op + text(e.X)
	case *Binary:
		return text(e.X) + " " + e.Op + " " + text(e.Y)
	case *Paren:
		return "(" + text(e.X) + ")"
	case *Address:
		return e.Text
	case *Str:
		return `"` + e.Text + `"`
	}
	return ""
}
