package ebpf

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A generator writes the function step, which is a program's code. It runs from the instruction that stateNext says to the next
// jump back, or to the end of the activation; main has the kernel call it for each such turn (bpf_loop), at most as often as the
// budget has instructions. So to the verifier no code is longer than the program, and no loop is there at all. Between two
// instructions of the program, everything but the fuel is in the data, where the virtual machine has it:
//
//	R7 the map's value   R8 the fuel that is left   R6, R9 scratch that calls leave alone   R0…R5 scratch
type generator struct {
	*builder
	*flow
	o     Options
	pc    int
	used  int32 // instructions of the straight piece of code that are not charged for yet
	stubs []stub
}

// A stub is the code for what seldom happens: it stands behind all other.
type stub struct {
	label string
	cause vm.Cause
	pc    int
	used  int32
}

const (
	labelAbort  = "abort"
	labelYield  = "yield"
	labelFinish = "finish"
	step        = "step"
)

// labelOf is the label of an instruction of the program.
func labelOf(pc int) string { return fmt.Sprintf("p%d", pc) }

// generate makes all functions of a program.
func generate(f *flow, o Options) (*builder, error) {
	b := newBuilder()
	g := &generator{builder: b, flow: f, o: o}
	g.main()
	g.functions()
	g.function(step)
	g.value(asm.R7, mapData, 0)
	g.load(asm.R8, asm.R7, stateFuel)
	g.load(asm.R1, asm.R7, stateNext)
	g.dispatch(g.entries())
	for pc := range g.code {
		if g.reached[pc] {
			if err := g.word(pc); err != nil {
				return nil, err
			}
		}
	}
	g.ends()
	return b, nil
}

// entries are the instructions that a turn may begin at, in order.
func (g *generator) entries() (list []int) {
	begins := make(map[int]bool)
	for _, t := range g.m.Triggers {
		begins[t.Entry] = true
	}
	for pc := range g.code {
		if begins[pc] || g.back[pc] {
			list = append(list, pc)
		}
	}
	return list
}

// dispatch jumps to the entry whose number R1 holds.
func (g *generator) dispatch(entries []int) {
	switch n := len(entries); {
	case n <= 3:
		for _, pc := range entries[1:] {
			g.emit(asm.JEq.Imm(asm.R1, int32(pc), labelOf(pc)))
		}
		g.jump(labelOf(entries[0]))
	default:
		upper := g.fresh()
		g.emit(asm.JGE.Imm(asm.R1, int32(entries[n/2]), upper))
		g.dispatch(entries[:n/2])
		g.place(upper)
		g.dispatch(entries[n/2:])
	}
}

// register puts a register of the program into one of the machine; keep puts it back.
func (g *generator) register(dst asm.Register, n uint8) { g.load(dst, asm.R7, at(int(n))) }
func (g *generator) keep(n uint8, src asm.Register)     { g.store(asm.R7, at(int(n)), src) }

// fails returns the label of code that aborts the activation at this instruction.
func (g *generator) fails(cause vm.Cause) string {
	s := stub{g.fresh(), cause, g.pc, g.used}
	g.stubs = append(g.stubs, s)
	return s.label
}

// charge takes what has been executed from the fuel.
func (g *generator) charge() {
	if g.used > 0 {
		g.emit(asm.Add.Imm(asm.R8, -g.used))
		g.used = 0
	}
}

// word makes the code of one instruction.
func (g *generator) word(pc int) error {
	if g.leader[pc] {
		g.charge() // of the piece before, which leads here
		g.place(labelOf(pc))
	}
	g.pc, g.used = pc, g.used+1
	w := g.code[pc]
	switch e := g.effect(pc); e.Flow {
	case prog.Branch:
		g.branch(w)
		return nil
	case prog.Jump:
		g.charge()
		g.goTo(pc, pc+1+int(w.Imm()))
		return nil
	case prog.End:
		g.end(w.Op())
		return nil
	}
	if g.compute(w) || g.access(w) || g.serve(w) {
		return nil
	}
	return fmt.Errorf("instruction %d: %v has no translation", pc, w.Op())
}

// goTo jumps. A jump back ends the turn, if the budget is not used up.
func (g *generator) goTo(pc, to int) {
	if to > pc {
		g.jump(labelOf(to))
		return
	}
	g.pc = to // which is not executed any more
	g.emit(
		asm.JSLE.Imm(asm.R8, 0, g.fails(vm.OutOfBudget)),
		asm.Mov.Imm(asm.R1, int32(to)),
	)
	g.jump(labelYield)
}

// end ends the activation.
func (g *generator) end(op prog.Op) {
	g.charge()
	o := map[prog.Op]vm.Outcome{prog.Await: vm.Awaiting, prog.Stop: vm.Stopped, prog.Pass: vm.Passed, prog.Drop: vm.Dropped}[op]
	g.emit(asm.Mov.Imm(asm.R1, outcome(o)))
	g.jump(labelFinish)
}

// ends makes the code that the others jump to.
func (g *generator) ends() {
	for _, s := range g.stubs {
		g.place(s.label)
		if s.used > 0 {
			g.emit(asm.Add.Imm(asm.R8, -s.used))
		}
		g.emit(asm.Mov.Imm(asm.R1, int32(s.cause)), asm.Mov.Imm(asm.R2, int32(s.pc)))
		g.jump(labelAbort)
	}
	if len(g.stubs) > 0 {
		g.place(labelAbort)
		g.store(asm.R7, stateCause, asm.R1)
		g.store(asm.R7, statePC, asm.R2)
		g.emit(asm.Mov.Imm(asm.R1, outcome(vm.Aborted)))
	}
	g.place(labelFinish)
	g.store(asm.R7, stateOutcome, asm.R1)
	g.store(asm.R7, stateFuel, asm.R8)
	g.emit(asm.Mov.Imm(asm.R0, 1), asm.Return())
	if !g.hasLoops() {
		return // the verifier refuses code that is never reached
	}
	g.place(labelYield)
	g.store(asm.R7, stateNext, asm.R1)
	g.store(asm.R7, stateFuel, asm.R8)
	g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
}
