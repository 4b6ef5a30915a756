package ebpf

import (
	"math"

	"github.com/weftnet/weft/pdl/prog"
)

// A loop is a piece of code with jumps back: from its head to the last jump to the head.
type loop struct{ head, last int }

// loops returns the loops that the triggers reach.
func (f *flow) loops() (list []loop) {
	for head := range f.code {
		if !f.back[head] {
			continue
		}
		l := loop{head, head}
		for pc := head; pc < len(f.code); pc++ {
			if _, target := f.leads(pc); f.reached[pc] && target == head {
				l.last = pc
			}
		}
		list = append(list, l)
	}
	return list
}

// counts reports whether the code shows that a loop ends. There must be a register that the loop
// changes only by adding numbers of one sign, or by setting it beyond its bound. Each turn must
// do so, and must pass a comparison after which the register is on the near side of a value that
// the loop does not change. Loops inside it are checked by themselves.
func (f *flow) counts(l loop) bool {
	if f.entered(l) {
		return false
	}
	for r := range prog.Registers {
		for _, sign := range []int64{1, -1} {
			if leap, ok := f.steps(l, uint8(r), sign); ok && f.bounds(l, uint8(r), sign, leap) {
				return true
			}
		}
	}
	return false
}

// entered reports whether a jump from outside leads into a loop other than to its head.
func (f *flow) entered(l loop) bool {
	within := func(pc int) bool { return pc > l.head && pc <= l.last }
	for _, t := range f.m.Triggers {
		if within(t.Entry) {
			return true
		}
	}
	for pc := range f.code {
		if _, target := f.leads(pc); f.reached[pc] && (pc < l.head || pc > l.last) && within(target) {
			return true
		}
	}
	return false
}

// noLeap means that a loop never sets its register to a number.
const noLeap = math.MaxInt64

// steps reports whether a loop changes a register, only by adding numbers of one sign or by
// setting it to a number. leap is the smallest such number, times the sign.
func (f *flow) steps(l loop, r uint8, sign int64) (leap int64, ok bool) {
	leap = noLeap
	changes := false
	for pc := l.head; pc <= l.last; pc++ {
		if !f.reached[pc] || !f.writes(pc, r) {
			continue
		}
		changes = true
		if w := f.code[pc]; w.Op() == prog.Ldi {
			leap = min(leap, int64(w.Imm())*sign)
		} else if f.step(pc)*sign <= 0 {
			return leap, false
		}
	}
	return leap, changes && !f.comesBack(l, func(pc int, _ bool) bool { return f.writes(pc, r) })
}

// step returns the number that an instruction adds to a register that it writes, or 0 if it does
// something else.
func (f *flow) step(pc int) int64 {
	switch w := f.code[pc]; w.Op() {
	case prog.Addi:
		if w.A() == w.B() {
			return int64(w.Imm())
		}
	case prog.Incjlt, prog.Incjlti:
		return int64(int8(w.C()))
	}
	return 0
}

// bounds reports whether each turn of a loop passes a comparison that bounds a register in the
// direction of sign. The comparison must fail for a register beyond the leap.
func (f *flow) bounds(l loop, r uint8, sign, leap int64) bool {
	return !f.comesBack(l, func(pc int, taken bool) bool {
		if leap == noLeap && f.side(l, pc, r, taken) == sign {
			return true
		}
		side, last := f.numberSide(pc, r, taken)
		return side == sign && last*sign < leap
	})
}

// side returns the direction in which a comparison of two registers bounds a register, or 0 if
// it does not. taken says whether the jump is taken.
func (f *flow) side(l loop, pc int, r uint8, taken bool) (side int64) {
	w := f.code[pc]
	switch w.Op() {
	case prog.Jlt, prog.Jle, prog.Incjlt:
		if w.A() == r && f.still(l, pc, w.B()) {
			side = 1
		} else if w.B() == r && f.still(l, pc, w.A()) {
			side = -1
		}
	}
	if !taken {
		side = -side
	}
	return side
}

// numberSide is side for a comparison with a number. It also returns the last number in this
// direction for which the comparison holds.
func (f *flow) numberSide(pc int, r uint8, taken bool) (side, last int64) {
	w := f.code[pc]
	if w.A() != r {
		return 0, 0
	}
	last = int64(w.Half())
	switch w.Op() {
	case prog.Incjlti:
		_, number := w.NearLimit()
		side, last = 1, int64(number)-1
	case prog.Jlti:
		side, last = 1, last-1
	case prog.Jlei:
		side = 1
	case prog.Jgti:
		side, last = -1, last+1
	case prog.Jgei:
		side = -1
	}
	if !taken {
		side, last = -side, last+side // the other branch begins where this one ends
	}
	return side, last
}

// still reports whether a register has the same value at pc in each turn of a loop. Either the
// loop does not write it, or it has just computed it from unchanging values, such as the
// message.
func (f *flow) still(l loop, pc int, register uint8) bool {
	written := false
	for at := l.head; at <= l.last; at++ {
		written = written || f.reached[at] && f.writes(at, register)
	}
	if !written {
		return true
	}
	by := f.maker(pc, register)
	if by < l.head {
		return false
	}
	w, e := f.code[by], f.effect(by)
	switch w.Op() {
	case prog.Ld, prog.Ldx, prog.Addx, prog.Clock, prog.Lock:
		return false
	}
	return e.A == prog.Write && (e.B != prog.Read || f.still(l, by, w.B())) &&
		(e.C != prog.Read || f.still(l, by, w.C()))
}

// comesBack reports whether a loop can return to its head without one of the branches that cut
// excludes. A branch is an instruction, and whether its jump is taken.
func (f *flow) comesBack(l loop, cut func(pc int, taken bool) bool) bool {
	seen := make(map[int]bool)
	open := []int{l.head}
	for len(open) > 0 {
		pc := open[len(open)-1]
		open = open[:len(open)-1]
		if pc < l.head || pc > l.last || seen[pc] {
			continue
		}
		seen[pc] = true
		next, target := f.leads(pc)
		for _, way := range []struct {
			to    int
			taken bool
		}{{next, false}, {target, true}} {
			if way.to < 0 || cut(pc, way.taken) {
				continue
			}
			if way.to == l.head {
				return true
			}
			open = append(open, way.to)
		}
	}
	return false
}

// lineOf returns the line of a loop: that of its first comparison, which stands before it, or
// that of its jump.
func (f *flow) lineOf(l loop) int {
	if l.head > 0 {
		if to, ok := f.code[l.head-1].Target(l.head - 1); ok && to > l.last {
			return f.m.LineAt(l.head - 1)
		}
	}
	return f.m.LineAt(l.last)
}
