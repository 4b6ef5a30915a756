package pdl

import (
	"math"

	"github.com/weftnet/weft/pdl/prog"
)

// condition jumps to a label depending on an expression, and otherwise goes on behind. If when
// is true, it jumps if the expression is not zero; else it jumps if it is zero.
func (g *generator) condition(e Expr, when bool, to *label) {
	e = unparen(e)
	mark := g.temp
	defer func() { g.temp = min(mark, g.temp) }()
	if v, known := constant(e); known {
		if (v != 0) == when {
			g.jump(prog.Jmp, 0, 0, 0, to)
		}
		return
	}
	switch e := e.(type) {
	case *Unary:
		if e.Op == "NOT" {
			g.condition(e.X, !when, to)
			return
		}
	case *Binary:
		switch {
		case e.Op == "AND" || e.Op == "OR":
			g.both(e, when, to)
			return
		case relation(e.Op):
			g.compare(e, when, to)
			return
		}
	}
	op := prog.Jnei
	if !when {
		op = prog.Jeqi
	}
	g.emitHalf(op, g.operand(e), 0, to)
}

// both jumps on AND or OR. The right side is evaluated only if the left one does not decide.
func (g *generator) both(e *Binary, when bool, to *label) {
	if (e.Op == "OR") == when { // either side alone decides to jump
		g.condition(e.X, when, to)
		g.condition(e.Y, when, to)
		return
	}
	stay := newLabel()
	g.condition(e.X, !when, stay)
	g.condition(e.Y, when, to)
	g.place(stay)
}

func relation(op string) bool {
	switch op {
	case "=", "==", "<>", "!=", "<", "<=", ">", ">=":
		return true
	}
	return false
}

// opposite maps a comparison to its negation, and mirrored to the same one with the sides
// exchanged.
var (
	opposite = map[string]string{"==": "<>", "<>": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
	mirrored = map[string]string{"==": "==", "<>": "<>", "<": ">", ">=": "<=", ">": "<", "<=": ">="}
	jumps    = map[string]prog.Op{"==": prog.Jeq, "<>": prog.Jne, "<": prog.Jlt, "<=": prog.Jle}
	jumpsBy  = map[string]prog.Op{
		"==": prog.Jeqi, "<>": prog.Jnei, "<": prog.Jlti, "<=": prog.Jlei,
		">": prog.Jgti, ">=": prog.Jgei,
	}
)

// canonical returns the one spelling of a comparison.
func canonical(op string) string {
	switch op {
	case "=":
		return "=="
	case "!=":
		return "<>"
	}
	return op
}

func (g *generator) compare(e *Binary, when bool, to *label) {
	op, x, y := canonical(e.Op), e.X, e.Y
	if !when {
		op = opposite[op]
	}
	if _, known := constant(x); known {
		x, y, op = y, x, mirrored[op]
	}
	if n, known := constant(y); known && n >= math.MinInt16 && n <= math.MaxInt16 {
		g.emitHalf(jumpsBy[op], g.operand(x), int16(n), to)
		return
	}
	a := g.operand(x)
	b := g.operand(y)
	if op == ">" || op == ">=" {
		a, b, op = b, a, mirrored[op]
	}
	g.jump(jumps[op], a, b, 0, to)
}

// emitHalf emits a jump on a register and a number.
func (g *generator) emitHalf(op prog.Op, a int, n int16, to *label) {
	g.jump(op, a, int(uint8(n)), int(uint8(n>>8)), to)
}
