package pdl

import (
	"math"

	"github.com/weftnet/weft/pdl/prog"
)

// A generator makes register code. Expressions have no effects, so an operand that is already in
// a register is used there. Only the last instruction of an expression writes its result, so the
// result register may be one that the expression reads.
type generator struct {
	*report
	m       *prog.Module
	pos     Pos // of the current statement
	passed  Pos // of the statement with which there are too many instructions
	line    int // named by the last entry of the line table
	temp    int // temporaries in use
	pending pending
	last    element
}

// A label is a place in the code. It keeps the jumps made before its place is known, and place
// patches them.
type label struct {
	at    int // -1 while unknown
	jumps []int
}

func newLabel() *label { return &label{at: -1} }

func (g *generator) emit(op prog.Op, a, b, c int, imm int32) {
	if len(g.m.Code) == prog.MaxCode && g.passed == (Pos{}) {
		g.passed = g.pos
	}
	if len(g.m.Code) > prog.MaxCode {
		return // already too long; generate reports it
	}
	g.forget(op, a)
	if g.line != g.pos.Line {
		g.line = g.pos.Line
		g.m.Lines = append(g.m.Lines, prog.Line{PC: len(g.m.Code), Line: g.line})
	}
	g.m.Code = append(g.m.Code, prog.Make(op, uint8(a), uint8(b), uint8(c), imm))
}

// jump emits an instruction that jumps.
func (g *generator) jump(op prog.Op, a, b, c int, to *label) {
	g.jumpWith(op, a, b, c, 0, to)
}

// jumpWith emits a jump whose immediate field already has its upper half.
func (g *generator) jumpWith(op prog.Op, a, b, c int, upper int16, to *label) {
	pc := len(g.m.Code)
	g.emit(op, a, b, c, int32(upper)<<16)
	if to.at < 0 {
		to.jumps = append(to.jumps, pc)
	} else {
		g.mend(pc, to.at)
	}
}

// mend writes the target into a jump.
func (g *generator) mend(pc, to int) {
	if pc >= len(g.m.Code) {
		return // the code is too long
	}
	w := g.m.Code[pc]
	imm := int32(to - pc - 1)
	if e, _ := w.Op().Effect(); e.Imm == prog.NearLimit {
		_, number := w.NearLimit()
		imm = int32(number)<<16 | int32(uint16(imm))
	}
	g.m.Code[pc] = prog.Make(w.Op(), w.A(), w.B(), w.C(), imm)
}

// place sets a label to the current place.
func (g *generator) place(l *label) {
	l.at = len(g.m.Code)
	g.last = element{}
	for _, pc := range l.jumps {
		g.mend(pc, l.at)
	}
}

// take returns n new temporaries that follow one another.
func (g *generator) take(n int) int {
	r := firstTemp + g.temp
	if g.temp += n; g.temp > temps {
		g.errorf(g.pos, "the expression needs more than %d temporaries: split it", temps)
		g.temp = n
		return firstTemp
	}
	return r
}

// load puts a constant into a register.
func (g *generator) load(dst int, v int64) {
	if v == int64(int32(v)) {
		g.emit(prog.Ldi, dst, 0, 0, int32(v))
		return
	}
	g.emit(prog.Ldi, dst, 0, 0, int32(v>>32))
	g.emit(prog.Ldih, dst, 0, 0, int32(uint32(v)))
}

// entry makes the code of an initialisation or of a message's handler.
func (g *generator) entry(blocks ...*Block) {
	g.pending, g.last = nil, element{}
	for _, b := range blocks {
		g.pos = b.Pos
		if g.block(b) {
			return
		}
		g.pos = b.End
	}
	g.emit(prog.Await, 0, 0, 0, 0) // an implicit AWAIT
}

// block makes the code of a block up to its last statement that can be reached. It reports
// whether the block ends the activation.
func (g *generator) block(b *Block) (ends bool) {
	for _, s := range b.Stmts {
		if g.stmt(s) {
			return true
		}
	}
	return false
}

func (g *generator) stmt(s Stmt) (ends bool) {
	if b, ok := s.(*Block); ok {
		return g.block(b)
	}
	g.pos, g.temp = s.Start(), 0
	switch s := s.(type) {
	case *Assign:
		g.before(use{reads: append(reads(s.Value), reads(indexOf(s.Target))...), writes: variable(s.Target)})
		g.assign(s)
	case *If:
		return g.ifStatement(s)
	case *While:
		return g.while(s)
	case *Send:
		g.send(s)
	case *Move:
		g.move(s)
	case *Act:
		return g.act(s)
	}
	return false
}

func (g *generator) assign(s *Assign) {
	r := s.Target.(*Ref)
	if at, ok := r.word(); ok {
		if at < prog.Registers {
			g.expr(s.Value, at)
		} else {
			g.emit(prog.St, g.operand(s.Value), 0, 0, int32(at))
		}
		return
	}
	value := g.operand(s.Value)
	g.emit(prog.Stx, value, 0, g.operand(r.Index), r.v.span().Imm())
}

func (g *generator) ifStatement(s *If) (ends bool) {
	g.before(use{reads: reads(s.Cond)})
	if v, known := constant(s.Cond); known {
		if v != 0 {
			return g.stmt(s.Then)
		}
		return s.Else != nil && g.stmt(s.Else)
	}
	otherwise, end := newLabel(), newLabel()
	g.condition(s.Cond, false, otherwise)
	before := g.pending.clone()
	thenEnds := g.stmt(s.Then)
	after := g.pending
	if thenEnds {
		after = nil
	}
	g.pending = before
	if s.Else == nil {
		g.place(otherwise)
		g.pending = append(g.pending, after...)
		return false
	}
	if !thenEnds {
		g.jump(prog.Jmp, 0, 0, 0, end)
	}
	g.place(otherwise)
	elseEnds := g.stmt(s.Else)
	g.place(end)
	if elseEnds {
		g.pending = nil
	}
	g.pending = append(g.pending, after...)
	return thenEnds && elseEnds
}

// while tests the condition before the loop and again behind its body, so that each turn has one
// jump.
func (g *generator) while(s *While) (ends bool) {
	if v, known := constant(s.Cond); known && v == 0 {
		return false
	}
	moves := g.beforeLoop(s)
	underWay := g.pending.clone() // valid if the loop is left, or not entered
	begin, end := newLabel(), newLabel()
	v, forever := constant(s.Cond)
	forever = forever && v != 0
	if !forever {
		g.condition(s.Cond, false, end)
	}
	g.place(begin)
	step := lastStep(s)
	bodyEnds := g.body(s.Body, step)
	if !bodyEnds {
		g.pos, g.temp = s.Pos, 0
		if moves {
			g.waitForAll() // the next turn may use what the body has begun
		}
		switch {
		case forever:
			g.jump(prog.Jmp, 0, 0, 0, begin)
		case step != nil:
			g.pos = step.s.Start()
			g.step(step, begin)
		default:
			g.condition(s.Cond, true, begin)
		}
	}
	g.place(end)
	g.pending = underWay
	return forever
}

// body makes the code of a loop's body, without the step, which the loop's jump does.
func (g *generator) body(s Stmt, step *step) (ends bool) {
	b, ok := s.(*Block)
	switch {
	case step == nil:
		return g.stmt(s)
	case !ok:
		return false // the body is only the step
	}
	for _, s := range b.Stmts {
		if s == Stmt(step.s) {
			return false
		}
		if inner, ok := s.(*Block); ok && s == b.Stmts[len(b.Stmts)-1] {
			return g.body(inner, step)
		}
		if g.stmt(s) {
			return true
		}
	}
	return false
}

// A step is the end of a counting loop: v = v + by, and then the comparison v < limit.
type step struct {
	s     *Assign
	v     int // the register
	by    int64
	limit Expr
}

// lastStep returns the step of a loop, or nil if the loop does not end in a step that fits an
// instruction.
func lastStep(s *While) *step {
	cond, ok := unparen(s.Cond).(*Binary)
	if !ok || cond.Op != "<" {
		return nil
	}
	a, ok := lastOf(s.Body).(*Assign)
	if !ok {
		return nil
	}
	v, isReg := register(a.Target)
	left, leftReg := register(unparen(cond.X))
	sum, ok := unparen(a.Value).(*Binary)
	if !ok || sum.Op != "+" && sum.Op != "-" || !isReg || !leftReg || v != left {
		return nil
	}
	x, xReg := register(unparen(sum.X))
	by, known := constant(sum.Y)
	if sum.Op == "-" {
		by = -by
	}
	if !xReg || x != v || !known || by < math.MinInt8 || by > math.MaxInt8 {
		return nil
	}
	if n, known := constant(cond.Y); known {
		if n < math.MinInt16 || n > math.MaxInt16 {
			return nil
		}
	} else if _, reg := register(unparen(cond.Y)); !reg {
		return nil
	}
	return &step{a, v, by, cond.Y}
}

// lastOf returns the last statement inside another, if it is always executed last.
func lastOf(s Stmt) Stmt {
	for {
		b, ok := s.(*Block)
		if !ok || len(b.Stmts) == 0 {
			return s
		}
		s = b.Stmts[len(b.Stmts)-1]
	}
}

func (g *generator) step(s *step, begin *label) {
	if n, known := constant(s.limit); known {
		g.jumpWith(prog.Incjlti, s.v, 0, int(s.by), int16(n), begin)
		return
	}
	limit, _ := register(unparen(s.limit))
	g.jump(prog.Incjlt, s.v, limit, int(s.by), begin)
}
