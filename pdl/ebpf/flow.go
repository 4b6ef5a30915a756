package ebpf

import (
	"slices"

	"github.com/weftnet/weft/pdl/prog"
)

// A flow is the part of a module's code that its triggers reach, with pairs of instructions
// split.
type flow struct {
	m       *prog.Module
	code    []prog.Word
	reached []bool
	leader  []bool // the target of a jump, or the instruction after a jump
	back    []bool // the target of a jump from behind, or from itself
}

func newFlow(m *prog.Module) *flow {
	n := len(m.Code)
	f := &flow{m: m, code: make([]prog.Word, n),
		reached: make([]bool, n), leader: make([]bool, n+1), back: make([]bool, n)}
	for pc, w := range m.Code {
		f.code[pc] = w.Apart()
	}
	var open []int
	for _, t := range m.Triggers {
		f.leader[t.Entry] = true
		open = append(open, t.Entry)
	}
	for len(open) > 0 {
		pc := open[len(open)-1]
		open = open[:len(open)-1]
		if f.reached[pc] {
			continue
		}
		f.reached[pc] = true
		next, target := f.leads(pc)
		if next >= 0 {
			open = append(open, next)
		}
		if target >= 0 {
			open = append(open, target)
			f.leader[target], f.leader[pc+1] = true, true
			f.back[target] = f.back[target] || target <= pc
		}
		if next < 0 {
			f.leader[pc+1] = true
		}
	}
	return f
}

// hasLoops reports whether there is a jump back.
func (f *flow) hasLoops() bool { return slices.Contains(f.back, true) }

// effect returns the description of an instruction's opcode.
func (f *flow) effect(pc int) *prog.Effect {
	e, _ := f.code[pc].Op().Effect()
	return e
}

// leads returns the following instruction and the jump target, -1 for none.
func (f *flow) leads(pc int) (next, target int) {
	next, target = pc+1, -1
	if to, ok := f.code[pc].Target(pc); ok {
		target = to
	}
	switch f.effect(pc).Flow {
	case prog.Jump, prog.End:
		next = -1
	}
	return next, target
}

// writes reports whether an instruction may change a register.
func (f *flow) writes(pc int, register uint8) bool {
	w, e := f.code[pc], f.effect(pc)
	switch w.Op() {
	case prog.Stx, prog.Get, prog.Copy:
		return w.Range().Has(register)
	case prog.St:
		return w.Imm() == int32(register)
	}
	return (e.A == prog.Write || e.A == prog.Modify) && w.A() == register
}

// maker returns the instruction that wrote a register's value at pc, if it is in the same
// straight piece of code, else -1.
func (f *flow) maker(pc int, register uint8) int {
	for !f.leader[pc] {
		if pc--; f.writes(pc, register) {
			return pc
		}
	}
	return -1
}

// constant returns a register's value at pc, if the code shows it.
func (f *flow) constant(pc int, register uint8) (v int64, ok bool) {
	if by := f.maker(pc, register); by >= 0 && f.code[by].Op() == prog.Ldi {
		return int64(f.code[by].Imm()), true
	}
	return 0, false
}

// atMost returns an upper bound for the length that a register holds at pc: most, or less if the
// code loads a smaller number or masks with one.
func (f *flow) atMost(pc int, register uint8, most int) int {
	by := f.maker(pc, register)
	if by < 0 {
		return most
	}
	switch w := f.code[by]; w.Op() {
	case prog.Ldi, prog.Andi:
		if n := int(w.Imm()); n >= 0 {
			return min(n, most)
		}
	}
	return most
}
