package ebpf

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A generator writes the function step, which is a program's code. It runs from the instruction
// in stateNext to the next jump back, or to the end of the activation. main lets the kernel call
// it for each such turn (bpf_loop), at most as often as the budget has instructions. So for the
// verifier, no code is longer than the program, and there is no loop. Between two instructions
// of the program, all values except the fuel are in the data, where the virtual machine keeps
// them:
//
//	R7 address of the map's value  R8 fuel left  R6, R9 scratch that calls preserve  R0…R5 scratch
type generator struct {
	*builder
	*flow
	o  Options
	pc int
	// used counts the instructions of the straight piece of code that are not charged yet.
	used  int32
	stubs []stub
}

// A stub is code for a rare case. All stubs follow the other code.
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

// labelOf returns the label of an instruction of the program.
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

// entries returns the instructions at which a turn may begin, in order.
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

// dispatch jumps to the entry in R1.
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

// register loads a register of the program into one of the machine, and keep stores it.
func (g *generator) register(dst asm.Register, n uint8) { g.load(dst, asm.R7, at(int(n))) }
func (g *generator) keep(n uint8, src asm.Register)     { g.store(asm.R7, at(int(n)), src) }

// fails returns the label of code that aborts the activation at the current instruction.
func (g *generator) fails(cause vm.Cause) string {
	s := stub{g.fresh(), cause, g.pc, g.used}
	g.stubs = append(g.stubs, s)
	return s.label
}

// charge subtracts the executed instructions from the fuel.
func (g *generator) charge() {
	if g.used > 0 {
		g.emit(asm.Add.Imm(asm.R8, -g.used))
		g.used = 0
	}
}

// word makes the code of one instruction.
func (g *generator) word(pc int) error {
	if g.leader[pc] {
		g.charge() // for the piece before, which leads here
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

// goTo jumps to an instruction. A jump back ends the turn, and aborts the activation if the
// budget is used up.
func (g *generator) goTo(pc, to int) {
	if to > pc {
		g.jump(labelOf(to))
		return
	}
	g.pc = to // the instruction that is not executed any more
	g.emit(
		asm.JSLE.Imm(asm.R8, 0, g.fails(vm.OutOfBudget)),
		asm.Mov.Imm(asm.R1, int32(to)),
	)
	g.jump(labelYield)
}

// end ends the activation.
func (g *generator) end(op prog.Op) {
	g.charge()
	o := map[prog.Op]vm.Outcome{
		prog.Await: vm.Awaiting, prog.Stop: vm.Stopped, prog.Pass: vm.Passed, prog.Drop: vm.Dropped}[op]
	g.emit(asm.Mov.Imm(asm.R1, outcome(o)))
	g.jump(labelFinish)
}

// ends makes the exits of step.
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
		return // the verifier refuses unreachable code
	}
	g.place(labelYield)
	g.store(asm.R7, stateNext, asm.R1)
	g.store(asm.R7, stateFuel, asm.R8)
	g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
}
