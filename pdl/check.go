package pdl

import (
	"fmt"
	"math"
	"strings"

	"github.com/weftnet/weft/pdl/prog"
)

// A checker binds the names of a program, finds the known values, and reports errors.
type checker struct {
	*report
	prog    *Program
	names   map[string]any // *Var or *Const, by the name in lower case
	symbols []prog.Symbol
	init    bool // inside the initialisation, which has no message
	// There are syntax errors, so an AWAIT may lack its IF.
	misread bool
}

// fold returns the form in which names are compared: case does not matter (PANIC-36).
func fold(name string) string { return strings.ToLower(name) }

// check checks a program, which may be incomplete. It returns the names of the programs and
// nodes that occur.
func check(p *Program, r *report) []prog.Symbol {
	c := &checker{report: r, prog: p, names: make(map[string]any), misread: len(r.all) > 0}
	if len(p.Name) > prog.MaxName {
		c.errorf(p.Pos, "the program's name has %d characters, at most %d are allowed", len(p.Name), prog.MaxName)
	}
	for _, k := range p.Consts {
		c.declare(k.Name, k.Pos, k)
	}
	for _, v := range p.Vars {
		c.declare(v.Name, v.Pos, v)
	}
	for _, k := range p.Consts {
		c.constant(k)
	}
	c.variables()
	c.triggers()
	if p.Init != nil {
		c.init = true
		c.block(p.Init)
		c.init = false
	}
	for _, m := range p.Messages {
		ended := false
		for _, b := range m.Blocks {
			if ended {
				c.unreached(b)
			}
			ended = c.block(b) || ended
		}
	}
	return c.symbols
}

func (c *checker) declare(name string, pos Pos, what any) {
	if name == "" {
		return // the parser has reported it
	}
	if len(name) > prog.MaxName {
		c.errorf(pos, "the name has %d characters, at most %d are allowed", len(name), prog.MaxName)
	}
	if other, taken := c.names[fold(name)]; taken {
		at := Pos{}
		switch o := other.(type) {
		case *Var:
			at = o.Pos
		case *Const:
			at = o.Pos
		}
		c.errorf(pos, "%s is declared a second time: case does not matter, and line %d has it already", name, at.Line)
		return
	}
	c.names[fold(name)] = what
}

// constant finds the value of a named constant.
func (c *checker) constant(k *Const) {
	switch k.state {
	case 2:
		return
	case 1:
		c.errorf(k.Pos, "%s is defined by itself", k.Name)
		k.state = 2
		return
	}
	k.state = 1
	c.expr(k.Value)
	k.value, k.known = c.known(k.Value, "the value of "+k.Name)
	k.state = 2
}

// known returns the value of an expression that must be constant.
func (c *checker) known(e Expr, what string) (int64, bool) {
	v, ok := constant(e)
	if !ok && !incomplete(e) {
		c.errorf(e.Start(), "%s must be constant", what)
	}
	return v, ok
}

// incomplete reports whether an error in the expression was reported already.
func incomplete(e Expr) (found bool) {
	walk(e, func(e Expr) {
		switch e := e.(type) {
		case *Bad:
			found = true
		case *Ref:
			found = found || e.v == nil && (e.c == nil || !e.c.known)
		case *Binary:
			if y, ok := constant(e.Y); ok && y == 0 && (e.Op == "/" || e.Op == "%") {
				found = true
			}
		}
	})
	return found
}

func (c *checker) variables() {
	words := prog.Registers
	for _, v := range c.prog.Vars {
		v.words = 1
		if v.Size != nil {
			c.expr(v.Size)
			n, ok := c.known(v.Size, "the size of "+v.Name)
			v.vague = true
			switch {
			case !ok:
			case n < 1 || n > prog.MaxData-prog.Registers:
				c.errorf(v.Size.Start(), "%s has %d elements: expected 1 to %d", v.Name, n, prog.MaxData-prog.Registers)
			default:
				v.words, v.vague = int(n), false
			}
		}
		words += v.words
		if words > prog.MaxData {
			c.errorf(v.Pos, "with %s the program's variables exceed %d words", v.Name, prog.MaxData-prog.Registers)
			words = math.MinInt32 // report it once
		}
	}
	if n := len(c.prog.Vars); n > prog.MaxVariables {
		c.errorf(c.prog.Vars[prog.MaxVariables].Pos, "%d variables, at most %d are allowed", n, prog.MaxVariables)
	}
}

// triggers compares the declared triggers with those that have a handler.
func (c *checker) triggers() {
	declared := make(map[int64]*Trigger)
	// all means that every declared trigger is known. Otherwise an undeclared one may be no
	// mistake.
	all := !c.prog.broken
	for _, t := range c.prog.Triggers {
		t.value, t.known = c.trigger(t.Number)
		if !t.known {
			_, number := constant(t.Number)
			all = all && number
			continue
		}
		if declared[t.value] != nil {
			c.errorf(t.Number.Start(), "trigger %d is declared a second time", t.value)
		}
		declared[t.value] = t
	}
	if n := len(c.prog.Triggers); n > prog.MaxTriggers {
		c.errorf(c.prog.Triggers[prog.MaxTriggers].Number.Start(),
			"%d triggers, at most %d are allowed", n, prog.MaxTriggers)
	}
	handled := make(map[int64]bool)
	allHandled := true // every trigger with a block is known
	for _, m := range c.prog.Messages {
		m.value, m.known = c.trigger(m.Trigger)
		switch {
		case !m.known:
			_, number := constant(m.Trigger)
			allHandled = allHandled && number
		case handled[m.value]:
			c.errorf(m.Pos, "trigger %d has a MESSAGE block already", m.value)
		case declared[m.value] == nil && all:
			c.errorf(m.Trigger.Start(), "trigger %d is not declared: expected it under TRIGGERS", m.value)
		}
		handled[m.value] = handled[m.value] || m.known
	}
	for _, t := range c.prog.Triggers {
		if t.known && allHandled && !handled[t.value] {
			c.errorf(t.Number.Start(), "trigger %d has no MESSAGE block", t.value)
		}
	}
}

func (c *checker) trigger(e Expr) (int64, bool) {
	c.expr(e)
	n, ok := c.known(e, "a trigger's number")
	if ok && (n < 0 || n > math.MaxUint32) {
		c.errorf(e.Start(), "trigger %d: expected 0 to %d", n, uint32(math.MaxUint32))
		ok = false
	}
	return n, ok
}

// block checks a block's statements. It reports whether the block ends the activation.
func (c *checker) block(b *Block) (ends bool) {
	for _, s := range b.Stmts {
		if ends {
			c.unreached(s)
		}
		ends = c.stmt(s) || ends
	}
	return ends
}

// unreached warns of a statement behind one that ends the activation (PANIC-30).
func (c *checker) unreached(s Stmt) {
	if !c.misread {
		c.warnf(s.Start(), "never reached: the activation has ended before")
	}
}

// stmt checks a statement, or does nothing for nil, which stands for an unreadable one. It
// reports whether the statement always ends the activation.
func (c *checker) stmt(s Stmt) (ends bool) {
	switch s := s.(type) {
	case *Block:
		return c.block(s)
	case *Assign:
		c.target(s.Target)
		c.expr(s.Value)
	case *If:
		c.expr(s.Cond)
		then := c.stmt(s.Then)
		return s.Else != nil && c.stmt(s.Else) && then
	case *While:
		c.expr(s.Cond)
		c.stmt(s.Body)
		v, ok := constant(s.Cond)
		return ok && v != 0
	case *Send:
		c.send(s)
	case *Move:
		c.move(s)
	case *Act:
		return c.act(s)
	}
	return false
}

// target checks the left side of an assignment.
func (c *checker) target(e Expr) {
	c.expr(e)
	if r, ok := e.(*Ref); ok && r.c != nil {
		c.errorf(r.Pos, "%s is a constant and cannot be assigned to", r.Name)
	}
}

// place checks the variable or packet that a SEND, DELIVER or GET names. n is the length in
// bytes, and may be nil.
func (c *checker) place(e Expr, n Expr) {
	if p, ok := e.(*Packet); ok {
		c.expr(p.Index)
		c.packet(p, 0)
		if first, _ := constant(p.Index); first <= prog.MaxMessage {
			c.within(first*p.unit(), n)
		}
		return
	}
	c.expr(e)
	r, ok := e.(*Ref)
	if !ok || r.v == nil {
		if ok && r.c != nil {
			c.errorf(r.Pos, "%s is a constant: expected a variable", r.Name)
		}
		return
	}
	length, known := constant(n)
	if !known || r.v.vague {
		return
	}
	first := int64(0)
	if r.Index != nil {
		if first, known = constant(r.Index); !known || first < 0 || first >= int64(r.v.words) {
			first = 0
		}
	}
	if room := (int64(r.v.words) - first) * 8; length < 0 || length > room {
		c.errorf(n.Start(), "LEN is %d bytes, and from here %s has %d: a word has 8", length, r.Name, room)
	}
}

func (c *checker) send(s *Send) {
	c.expr(s.Len)
	c.place(s.What, s.Len)
	_, part := s.What.(*Packet)
	if n, ok := constant(s.Len); ok && n > prog.MaxMessage && !part {
		c.errorf(s.Len.Start(), "LEN is %d bytes, and a message has at most %d", n, prog.MaxMessage)
	}
	c.expr(s.As)
	if n, ok := constant(s.As); ok && (n < 0 || n > math.MaxUint32) {
		c.errorf(s.As.Start(), "AS %d: a trigger is a number from 0 to %d", n, uint32(math.MaxUint32))
	}
	s.toSymbol = c.destination(s.To, prog.ProgramName)
	if n, ok := constant(s.To); ok && (n < 1 || n > math.MaxUint32) {
		c.errorf(s.To.Start(), "TO %d: a program is a name, or a number from 1 to %d", n, uint32(math.MaxUint32))
	}
	s.atSymbol = c.destination(s.At, prog.NodeName)
	if s.All && s.toSymbol < 0 {
		c.errorf(s.To.Start(),
			"TO has a number, and AT * sends to the programs of all NICs, which have numbers of their own: "+
				"expected a name")
	}
}

// destination checks the operand of TO or AT: a value, or the name of a program or node. It
// returns the name's number, or -1.
func (c *checker) destination(e Expr, of prog.SymbolKind) int {
	switch e := e.(type) {
	case *Str:
		return c.symbol(e.Pos, of, e.Text)
	case *Ref:
		if e.Index == nil && e.Name != "" && c.names[fold(e.Name)] == nil {
			return c.symbol(e.Pos, of, e.Name)
		}
	}
	c.expr(e)
	return -1
}

func (c *checker) symbol(pos Pos, of prog.SymbolKind, name string) int {
	if of == prog.ProgramName {
		name = fold(name)
	}
	if !prog.ValidName(name) {
		c.errorf(pos, "%q is no name of a %s: expected 1 to %d characters without space", name, of, prog.MaxName)
		return -1
	}
	s := prog.Symbol{Of: of, Name: name}
	for i, o := range c.symbols {
		if o == s {
			return i
		}
	}
	if len(c.symbols) == prog.MaxNames {
		c.errorf(pos, "names of more than %d programs and nodes", prog.MaxNames)
		return -1
	}
	c.symbols = append(c.symbols, s)
	return len(c.symbols) - 1
}

func (c *checker) move(s *Move) {
	c.expr(s.Offset)
	c.expr(s.Segment)
	c.expr(s.Len)
	c.place(s.What, s.Len)
	if n, ok := constant(s.Offset); ok && n < 0 {
		c.errorf(s.Offset.Start(), "OFFSET is %d bytes: expected 0 and more", n)
	}
	if n, ok := constant(s.Segment); ok && (n < 0 || n > math.MaxUint32) {
		word := "INTO"
		if s.Get {
			word = "FROM"
		}
		c.errorf(s.Segment.Start(), "%s %d: a segment is a number from 0 to %d", word, n, uint32(math.MaxUint32))
	}
	if s.FromPacket {
		c.fromPacket(s)
	}
}

func (c *checker) act(s *Act) (ends bool) {
	c.expr(s.X)
	switch s.What {
	case "PASS", "DROP":
		if c.init {
			c.noMessage(s.Pos, s.What)
		}
		return true
	case "PASS AFTER":
		if c.init {
			c.noMessage(s.Pos, s.What)
		}
		if n, ok := constant(s.X); ok && (n < 0 || n > prog.MaxDelay) {
			c.errorf(s.X.Start(), "AFTER is %d ns: expected 0 to %d", n, int64(prog.MaxDelay))
		}
		return true
	case "AWAIT", "STOP":
		return true
	case "SET FLAG":
		c.sync(s.X, "FLAG", "flag")
	case "CLEAR LOCK":
		c.sync(s.X, "LOCK", "lock")
	}
	return false
}

// sync checks the number of a lock or flag, if it is constant.
func (c *checker) sync(e Expr, word, what string) {
	const most = prog.SegmentLocks<<32 - 1
	if n, ok := constant(e); ok && (n < 0 || n > most) {
		c.errorf(e.Start(), "%s %d: a %s is a number from 0 to %d", word, n, what, most)
	}
}

func (c *checker) noMessage(pos Pos, what string) {
	c.errorf(pos, "%s in the initialisation, where no message has come", what)
}

// expr checks an expression and binds its names.
func (c *checker) expr(e Expr) {
	walk(e, func(e Expr) {
		switch e := e.(type) {
		case *Ref:
			c.ref(e)
		case *Builtin:
			if c.init && e.Name != "CLOCK" {
				c.noMessage(e.Pos, e.Name)
			}
		}
	})
	walk(e, func(e Expr) { // second pass: the names are bound
		switch e := e.(type) {
		case *Packet:
			c.packet(e, 1)
		case *LockTest:
			c.sync(e.X, "LOCK", "lock")
		case *Binary:
			c.rightSide(e)
		}
	})
}

// rightSide checks the right operand of an operator, if it is constant.
func (c *checker) rightSide(b *Binary) {
	y, ok := constant(b.Y)
	switch {
	case !ok:
	case (b.Op == "/" || b.Op == "%") && y == 0:
		c.errorf(b.OpPos, "division by zero")
	case (b.Op == "<<" || b.Op == ">>" || b.Op == ">>>") && y&63 != y:
		c.warnf(b.Y.Start(), "a shift by %d is one by %d: its lowest six bits count", y, y&63)
	}
}

func (c *checker) ref(r *Ref) {
	if r.v != nil || r.c != nil {
		return
	}
	switch d := c.names[fold(r.Name)].(type) {
	case nil:
		if !c.prog.broken && r.Name != "" {
			c.errorf(r.Pos, "%s is not declared%s", r.Name, c.similar(r.Name))
		}
	case *Const:
		r.c = d
		if d.state != 2 {
			c.constant(d)
		}
		if r.Index != nil {
			c.errorf(r.Pos, "%s is a constant and has no elements", r.Name)
		}
	case *Var:
		r.v = d
		c.index(r, d)
	}
}

func (c *checker) index(r *Ref, v *Var) {
	switch {
	case v.Size == nil && r.Index != nil && !v.vague:
		c.errorf(r.Pos, "%s is one word and has no elements", r.Name)
	case v.Size != nil && r.Index == nil:
		c.errorf(r.Pos, "%s is an array: expected an index, as %s[0]", r.Name, r.Name)
	case r.Index != nil && v.words > 0: // words is 0 while sizes are read
		walk(r.Index, func(e Expr) {
			if r, ok := e.(*Ref); ok {
				c.ref(r)
			}
		})
		if i, ok := constant(r.Index); ok && !v.vague && (i < 0 || i >= int64(v.words)) {
			c.errorf(r.Index.Start(), "index %d: %s has elements 0 to %d", i, r.Name, v.words-1)
		}
	}
}

// similar suggests a declared name that differs by one typing error.
func (c *checker) similar(name string) string {
	for _, v := range c.prog.Vars {
		if near(fold(v.Name), fold(name)) {
			return fmt.Sprintf("; is %s meant?", v.Name)
		}
	}
	for _, k := range c.prog.Consts {
		if near(fold(k.Name), fold(name)) {
			return fmt.Sprintf("; is %s meant?", k.Name)
		}
	}
	return ""
}

// near reports whether two different names differ by one typing error: a character changed,
// added or left out, or two neighbours exchanged.
func near(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 2 || len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		exchanged := i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		return exchanged || i < len(a) && a[i+1:] == b[i+1:]
	}
	return a[i:] == b[i+1:]
}
