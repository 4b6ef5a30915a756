package pdl

import "github.com/weftnet/weft/pdl/prog"

// args puts expressions into consecutive registers and returns the first register.
func (g *generator) args(list ...Expr) int {
	first := g.take(len(list))
	for i, e := range list {
		if e != nil {
			g.expr(e, first+i)
		}
	}
	return first
}

// firstOf returns the index of the first moved element, as an argument.
func firstOf(e Expr) Expr {
	if i := indexOf(e); i != nil {
		return i
	}
	return &Number{Pos: e.Start()}
}

func (g *generator) send(s *Send) {
	u := use{reads: append(variable(s.What), reads(indexOf(s.What), s.Len, s.As, s.To, s.At)...), signals: true}
	g.before(u)
	there, here := prog.Send, prog.Sendhere
	if _, ofPacket := s.What.(*Packet); ofPacket {
		there, here = prog.Sendp, prog.Sendphere
	}
	if s.All {
		g.sendAll(s)
		return
	}
	list := []Expr{firstOf(s.What), s.Len, s.As, nil, nil} // the places for TO and AT follow
	op := there
	if s.At == nil {
		op, list = here, list[:4]
	}
	first := g.args(list...)
	if s.toSymbol < 0 {
		g.expr(s.To, first+3)
	}
	if s.At != nil {
		g.destination(s.At, s.atSymbol, first+4)
	}
	if s.toSymbol >= 0 { // after AT, since a program name belongs to that node
		g.lookup(s, first+3, first+4)
	}
	g.emit(op, first, 0, 0, immOf(s.What))
}

// sendAll sends to the programs with one name on all NICs. The machine finds the name by its
// number among the names of the module.
func (g *generator) sendAll(s *Send) {
	op := prog.Sendall
	if _, ofPacket := s.What.(*Packet); ofPacket {
		op = prog.Sendpall
	}
	first := g.args(firstOf(s.What), s.Len, s.As, &Number{Pos: s.To.Start(), Value: int64(max(s.toSymbol, 0))})
	g.emit(op, first, 0, 0, immOf(s.What))
}

// immOf returns the immediate field for a moved operand: the words of a variable, or the unit of
// the packet.
func immOf(e Expr) int32 {
	switch e := e.(type) {
	case *Ref:
		return e.v.span().Imm()
	case *Packet:
		if !e.Byte {
			return 8
		}
	}
	return 1
}

// lookup puts the number of the program that TO names into a register. nic is the register of
// AT.
func (g *generator) lookup(s *Send, dst, nic int) {
	if s.At == nil {
		g.emit(prog.Lookup, dst, 0, 0, int32(s.toSymbol))
		return
	}
	g.emit(prog.Lookupat, dst, nic, 0, int32(s.toSymbol))
}

// destination puts the operand of AT, a node's id, into a register.
func (g *generator) destination(e Expr, symbol, dst int) {
	if symbol >= 0 {
		g.emit(prog.Lookup, dst, 0, 0, int32(symbol))
		return
	}
	g.expr(e, dst)
}

func (g *generator) move(s *Move) {
	g.beforeMove(s)
	imm := immOf(s.What)
	switch _, ofPacket := s.What.(*Packet); {
	case s.FromPacket:
		g.emit(prog.Copy, g.args(firstOf(s.What), s.Offset, s.Len), 0, 0, imm)
	case s.Get:
		g.emit(prog.Get, g.args(firstOf(s.What), s.Offset, s.Segment, s.Len), 0, 0, imm)
	case ofPacket:
		g.emit(prog.Deliverp, g.args(firstOf(s.What), s.Offset, s.Segment, s.Len), 0, 0, imm)
	default:
		g.emit(prog.Deliver, g.args(firstOf(s.What), s.Offset, s.Segment, s.Len), 0, 0, imm)
	}
	if !s.FromPacket {
		g.pending = append(g.pending, transferOf(s))
	}
}

func (g *generator) act(s *Act) (ends bool) {
	switch s.What {
	case "AWAIT":
		g.emit(prog.Await, 0, 0, 0, 0)
	case "STOP":
		g.emit(prog.Stop, 0, 0, 0, 0)
	case "PASS":
		g.emit(prog.Pass, 0, 0, 0, 0)
	case "PASS AFTER":
		g.before(use{reads: reads(s.X)})
		g.emit(prog.After, g.operand(s.X), 0, 0, 0)
		g.emit(prog.Pass, 0, 0, 0, 0)
	case "DROP":
		g.emit(prog.Drop, 0, 0, 0, 0)
	case "DISPLAY":
		g.before(use{reads: reads(s.X)})
		g.emit(prog.Display, g.operand(s.X), 0, 0, 0)
		return false
	case "SET FLAG":
		g.before(use{reads: reads(s.X), signals: true})
		g.emit(prog.Setflag, g.operand(s.X), 0, 0, 0)
		return false
	default: // CLEAR LOCK
		g.before(use{reads: reads(s.X), signals: true})
		g.emit(prog.Clearlock, g.operand(s.X), 0, 0, 0)
		return false
	}
	return true
}
