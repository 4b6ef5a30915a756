package pdl

import "github.com/weftnet/weft/pdl/prog"

// args puts expressions into registers that follow one another and returns the first.
func (g *generator) args(list ...Expr) int {
	first := g.take(len(list))
	for i, e := range list {
		if e != nil {
			g.expr(e, first+i)
		}
	}
	return first
}

// firstOf is the index of the first element of what is moved, as an argument.
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
	list := []Expr{firstOf(s.What), s.Len, s.As, nil, nil} // the places of TO and AT come next
	op := there
	if s.At == nil {
		op, list = here, list[:4]
	}
	first := g.args(list...)
	g.destination(s.To, s.toSymbol, first+3)
	if s.At != nil {
		g.destination(s.At, s.atSymbol, first+4)
	}
	g.emit(op, first, 0, 0, immOf(s.What))
}

// immOf is how an instruction names what it moves: the words of a variable, or how the packet is counted.
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

// destination puts the number of a program or node into a register.
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
