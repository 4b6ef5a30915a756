package pdl

import (
	"math"
	"math/bits"

	"github.com/weftnet/weft/pdl/prog"
)

// word returns the word of the data that a reference names, if it is known.
func (e *Ref) word() (at int, known bool) {
	if e.v == nil {
		return 0, false
	}
	if e.Index == nil {
		return e.v.base, true
	}
	i, known := constant(e.Index)
	return e.v.base + int(i), known
}

// register returns the register in which an expression already lies, if any.
func register(e Expr) (r int, ok bool) {
	switch e := e.(type) {
	case *Ref:
		at, known := e.word()
		return at, known && at < prog.Registers
	case *Builtin:
		switch e.Name {
		case "PACKETLEN":
			return prog.PacketLen, true
		case "SOURCE":
			return prog.Source, true
		}
	}
	return 0, false
}

// operand returns a register that has the value of an expression.
func (g *generator) operand(e Expr) int {
	e = unparen(e)
	if _, known := constant(e); !known {
		if r, ok := register(e); ok {
			return r
		}
		if r, ok := g.loaded(e); ok {
			g.temp = max(g.temp, r-firstTemp+1)
			return r
		}
	}
	mark := g.temp
	dst := g.take(1)
	g.expr(e, dst)
	g.temp = mark + 1
	return dst
}

// first returns a register that holds the operand that is evaluated first. If it needs a
// temporary, it uses the result's, which is still free. So a long chain of operators needs no
// more temporaries than a short one.
func (g *generator) first(e Expr, dst int) int {
	e = unparen(e)
	if _, known := constant(e); !known {
		if r, ok := register(e); ok {
			return r
		}
	}
	if dst < firstTemp {
		return g.operand(e)
	}
	g.expr(e, dst)
	return dst
}

// expr puts the value of an expression into a register. It frees all other temporaries that it
// used.
func (g *generator) expr(e Expr, dst int) {
	mark := g.temp
	g.value(unparen(e), dst)
	g.temp = min(mark, g.temp)
}

func (g *generator) value(e Expr, dst int) {
	if v, known := constant(e); known {
		g.load(dst, v)
		return
	}
	if r, ok := register(e); ok {
		if r != dst {
			g.emit(prog.Mov, dst, r, 0, 0)
		}
		return
	}
	switch e := e.(type) {
	case *Ref:
		if at, known := e.word(); known {
			g.emit(prog.Ld, dst, 0, 0, int32(at))
		} else {
			g.loadElement(e, dst)
		}
	case *Packet:
		g.packet(e, dst)
	case *Builtin:
		g.emit(prog.Clock, dst, 0, 0, 0)
	case *LockTest:
		g.emit(prog.Lock, dst, g.operand(e.X), 0, 0)
	case *Unary:
		g.unary(e, dst)
	case *Binary:
		g.binary(e, dst)
	}
}

// An element is the element of an array that was loaded last, and the temporary that holds it.
// It is valid while the temporary, the index and the memory are unchanged and no jump leads in
// between.
type element struct {
	v           *Var
	index, temp int // registers
}

func (g *generator) loadElement(e *Ref, dst int) {
	index := g.first(e.Index, dst)
	g.emit(prog.Ldx, dst, 0, index, e.v.span().Imm())
	if dst >= firstTemp && index < firstTemp {
		g.last = element{e.v, index, dst}
	}
}

// loaded returns the temporary that already holds an element, if any.
func (g *generator) loaded(e Expr) (temp int, ok bool) {
	r, ok := e.(*Ref)
	if !ok || r.Index == nil || r.v == nil || r.v != g.last.v {
		return 0, false
	}
	index, ok := register(unparen(r.Index))
	return g.last.temp, ok && index == g.last.index
}

// forget drops the loaded element if an instruction may change it. It is called for every
// instruction.
func (g *generator) forget(op prog.Op, a int) {
	e, _ := op.Effect()
	writes := (e.A == prog.Write || e.A == prog.Modify) &&
		(a == g.last.temp || a == g.last.index || a < firstTemp && g.last.inRegisters(a))
	if writes || op == prog.Stx || op == prog.St || e.Args > 0 || op == prog.Wait {
		g.last = element{}
	}
}

// inRegisters reports whether a register is a word of the variable.
func (l element) inRegisters(r int) bool {
	return l.v != nil && r >= l.v.base && r < l.v.base+l.v.words
}

func (g *generator) packet(e *Packet, dst int) {
	op, opConst := prog.Ldpw, prog.Ldpwi
	if e.Byte {
		op, opConst = prog.Ldpb, prog.Ldpbi
	}
	if i, known := constant(e.Index); known {
		g.emit(opConst, dst, 0, 0, int32(i))
		return
	}
	index, plus := displaced(e.Index)
	g.emit(op, dst, 0, g.first(index, dst), plus)
}

// displaced splits a constant summand off an index, for an instruction with a displacement.
func displaced(e Expr) (index Expr, plus int32) {
	if b, ok := unparen(e).(*Binary); ok && (b.Op == "+" || b.Op == "-") {
		if n, known := constant(b.Y); known && fits(n) && n != math.MinInt32 {
			if b.Op == "-" {
				n = -n
			}
			return b.X, int32(n)
		}
		if n, known := constant(b.X); known && fits(n) && b.Op == "+" {
			return b.Y, int32(n)
		}
	}
	return e, 0
}

func fits(n int64) bool { return n == int64(int32(n)) }

func (g *generator) unary(e *Unary, dst int) {
	switch e.Op {
	case "-":
		g.emit(prog.Rsubi, dst, g.first(e.X, dst), 0, 0)
	case "~":
		g.emit(prog.Xori, dst, g.first(e.X, dst), 0, -1)
	default:
		g.truth(e, dst)
	}
}

// truth turns a condition into 1 or 0. It writes the result last, since the condition may read
// that register.
func (g *generator) truth(e Expr, dst int) {
	no, end := newLabel(), newLabel()
	g.condition(e, false, no)
	g.emit(prog.Ldi, dst, 0, 0, 1)
	g.jump(prog.Jmp, 0, 0, 0, end)
	g.place(no)
	g.emit(prog.Ldi, dst, 0, 0, 0)
	g.place(end)
}

// A form names the instructions for an operator: one for two registers, one for a register and a
// constant.
type form struct {
	regs, number prog.Op
	commutes     bool
}

var forms = map[string]form{
	"+": {prog.Add, prog.Addi, true}, "-": {prog.Sub, 0, false}, "*": {prog.Mul, prog.Muli, true},
	"/": {prog.Div, prog.Divi, false}, "%": {prog.Mod, prog.Modi, false},
	"&": {prog.And, prog.Andi, true}, "|": {prog.Or, prog.Ori, true}, "^": {prog.Xor, prog.Xori, true},
	"<<": {prog.Shl, prog.Shli, false}, ">>": {prog.Shr, prog.Shri, false}, ">>>": {prog.Shru, prog.Shrui, false},
}

var comparisons = map[string]prog.Op{
	"=": prog.Seq, "==": prog.Seq, "<>": prog.Sne, "!=": prog.Sne, "<": prog.Slt, "<=": prog.Sle,
}

func (g *generator) binary(e *Binary, dst int) {
	if e.Op == "AND" || e.Op == "OR" {
		g.truth(e, dst)
		return
	}
	if op, ok := comparisons[e.Op]; ok {
		x := g.first(e.X, dst)
		g.emit(op, dst, x, g.operand(e.Y), 0)
		return
	}
	if e.Op == ">" || e.Op == ">=" {
		x := g.first(e.X, dst)
		g.emit(comparisons["<"+e.Op[1:]], dst, g.operand(e.Y), x, 0)
		return
	}
	if g.fused(e, dst) {
		return
	}
	f := forms[e.Op]
	x, y := e.X, e.Y
	if _, known := constant(x); known && f.commutes {
		x, y = y, x
	}
	if n, known := constant(y); known && g.withNumber(e.Op, x, n, dst) {
		return
	}
	if n, known := constant(x); known && e.Op == "-" && fits(n) {
		g.emit(prog.Rsubi, dst, g.first(y, dst), 0, int32(n))
		return
	}
	a := g.first(x, dst)
	g.emit(f.regs, dst, a, g.operand(y), 0)
}

// byPower emits a product, quotient or remainder with 1 << n.
func (g *generator) byPower(op string, x Expr, n, dst int) {
	switch op {
	case "*":
		g.emit(prog.Shli, dst, g.first(x, dst), 0, int32(n))
	case "/":
		g.emit(prog.Divs, dst, g.first(x, dst), n, 1<<n-1)
	default:
		g.emit(prog.Mods, dst, g.first(x, dst), 0, 1<<n-1)
	}
}

// withNumber emits x op n, if an instruction can hold the constant.
func (g *generator) withNumber(op string, x Expr, n int64, dst int) bool {
	switch op {
	case "-":
		if !fits(-n) {
			return false
		}
		g.emit(prog.Addi, dst, g.first(x, dst), 0, int32(-n))
		return true
	case "<<", ">>", ">>>":
		n &= 63
	case "*", "/", "%":
		if n > 1 && n&(n-1) == 0 && fits(n-1) {
			g.byPower(op, x, bits.TrailingZeros64(uint64(n)), dst)
			return true
		}
	}
	if !fits(n) {
		return false
	}
	g.emit(forms[op].number, dst, g.first(x, dst), 0, int32(n))
	return true
}

// fused emits a superinstruction for an operator and one of its operands, if there is one.
func (g *generator) fused(e *Binary, dst int) bool {
	switch e.Op {
	case "+":
		return g.sumWith(e.X, e.Y, dst) || g.sumWith(e.Y, e.X, dst)
	case "&":
		return g.maskedSum(e.X, e.Y, dst) || g.maskedSum(e.Y, e.X, dst)
	}
	return false
}

// sumWith emits x + y as one instruction, if y is an element, a byte of the packet, or a product
// with a constant.
func (g *generator) sumWith(x, y Expr, dst int) bool {
	if _, known := constant(x); known {
		return false
	}
	switch y := unparen(y).(type) {
	case *Ref:
		if _, known := y.word(); known || y.Index == nil {
			return false
		}
		a := g.first(x, dst)
		g.emit(prog.Addx, dst, a, g.operand(y.Index), y.v.span().Imm())
		return true
	case *Packet:
		if _, known := constant(y.Index); known || !y.Byte {
			return false
		}
		a := g.first(x, dst)
		index, plus := displaced(y.Index)
		g.emit(prog.Addpb, dst, a, g.operand(index), plus)
		return true
	case *Binary:
		factor, times, ok := product(y)
		if !ok {
			return false
		}
		a := g.first(x, dst)
		g.emit(prog.Maddi, dst, a, g.operand(factor), times)
		return true
	}
	return false
}

// product splits a product with a constant, or a left shift, into its factors.
func product(e *Binary) (factor Expr, times int32, ok bool) {
	switch e.Op {
	case "*":
		if n, known := constant(e.Y); known && fits(n) {
			return e.X, int32(n), true
		}
		if n, known := constant(e.X); known && fits(n) {
			return e.Y, int32(n), true
		}
	case "<<":
		if n, known := constant(e.Y); known && n >= 0 && n < 31 {
			return e.X, 1 << n, true
		}
	}
	return nil, 0, false
}

// maskedSum emits (x + n) & mask as one instruction: the next place in a ring.
func (g *generator) maskedSum(sum, mask Expr, dst int) bool {
	n, known := constant(mask)
	b, ok := unparen(sum).(*Binary)
	if !known || !ok || b.Op != "+" && b.Op != "-" || !fits(n) {
		return false
	}
	x, plus := displaced(b)
	if plus == 0 || plus != int32(int8(plus)) {
		return false
	}
	if _, known := constant(x); known {
		return false
	}
	g.emit(prog.Addandi, dst, g.first(x, dst), int(uint8(int8(plus))), int32(n))
	return true
}
