package ebpf

import (
	"maps"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/pdl/prog"
)

// serve makes the code of what asks the NIC for something. It reports whether the instruction is such.
func (g *generator) serve(w prog.Word) bool {
	switch w.Op() {
	case prog.Wait: // every transfer is done at once
	case prog.Clock:
		g.clock(w)
	case prog.Display:
		g.display(w)
	case prog.Lock, prog.Setflag, prog.Clearlock:
		g.sync(w)
	case prog.Send, prog.Sendp:
		g.send(w)
	case prog.Deliver, prog.Deliverp, prog.Get:
		g.transfer(w)
	case prog.Copy:
		g.copy(w)
	default:
		return false
	}
	return true
}

func (g *generator) clock(w prog.Word) {
	g.emit(asm.Mov.Imm(asm.R0, 0))
	if !g.o.FrozenClock {
		g.emit(asm.FnKtimeGetNs.Call())
	}
	g.load(asm.R1, asm.R7, stateClock)
	g.emit(asm.Add.Reg(asm.R0, asm.R1))
	g.keep(w.A(), asm.R0)
}

// leave jumps away from code that goes on behind it: the kernel refuses what no way leads to, but does not see that a condition always holds.
func (g *generator) leave(to string) {
	g.emit(asm.Mov.Imm(asm.R1, 0), asm.JEq.Imm(asm.R1, 0, to))
}

// The stack of step.
const (
	onStackView   = -16 // a view of memory whose bounds are checked when it is used (dynptr), 16 bytes
	onStackRecord = -32 // what is told, 16 bytes
	onStackOffset = -40 // a word
)

// display puts the program's number and the value into the ring.
func (g *generator) display(w prog.Word) {
	g.register(asm.R1, w.A())
	done := g.fresh()
	g.tell(mapDisplays)
	g.emit(
		asm.JEq.Imm(asm.R0, 0, done),
		asm.Mov.Imm(asm.R1, 1),
	)
	g.count(asm.R7, stateDisplaysLost, asm.R1)
	g.place(done)
}

// tell puts a record of this program into a ring, with R1 as its value. Then R0 is 0 if there was room.
func (g *generator) tell(ring string) {
	g.emit(
		asm.StoreMem(asm.RFP, onStackRecord+8, asm.R1, asm.DWord),
		asm.StoreImm(asm.RFP, onStackRecord, int64(int32(g.o.ID)), asm.Word), asm.StoreImm(asm.RFP, onStackRecord+4, 0, asm.Word),
	)
	g.table(asm.R1, ring)
	g.emit(
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, onStackRecord),
		asm.Mov.Imm(asm.R3, recordLen), asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
	)
}

// sync reads a lock, clears one or sets a flag. It is a word of one of the segments, which are few: they are tried in turn.
func (g *generator) sync(w prog.Word) {
	done := g.fresh()
	number := w.A()
	if w.Op() == prog.Lock {
		number = w.B()
	}
	g.register(asm.R9, number)
	g.emit(asm.Mov.Imm(asm.R0, 0))
	for _, id := range slices.Sorted(maps.Keys(g.o.Segments)) {
		s := g.o.Segments[id]
		other := g.fresh()
		g.emit(
			asm.LoadImm(asm.R1, int64(id)*int64(s.Words), asm.DWord),
			asm.Mov.Reg(asm.R2, asm.R9), asm.Sub.Reg(asm.R2, asm.R1),
			asm.JGE.Imm(asm.R2, int32(s.Words), other),
			asm.LSh.Imm(asm.R2, 2),
		)
		locks := s.Bytes
		if w.Op() == prog.Setflag {
			locks += 4 * s.Words
		}
		g.value(asm.R1, segmentMap(id), locks)
		g.emit(asm.Add.Reg(asm.R1, asm.R2))
		switch w.Op() {
		case prog.Lock:
			g.emit(asm.LoadMem(asm.R0, asm.R1, 0, asm.Word), asm.JEq.Imm(asm.R0, 0, done), asm.Mov.Imm(asm.R0, 1))
		case prog.Setflag:
			g.emit(asm.Mov.Imm(asm.R2, 1), atomic(asm.Xchg, asm.R1, asm.R2, asm.Word, 0))
		case prog.Clearlock:
			g.emit(asm.Mov.Imm(asm.R2, 0), atomic(asm.Xchg, asm.R1, asm.R2, asm.Word, 0))
		}
		if w.Op() != prog.Lock {
			g.emit(asm.Mov.Imm(asm.R1, 1))
			g.count(asm.R7, stateFlags, asm.R1)
			g.emit(asm.LoadImm(asm.R1, int64(id), asm.DWord))
			g.tell(mapBells) // where there is no room for it the reader finds many, and then looks at all segments
			g.emit(asm.Mov.Imm(asm.R0, 0))
		}
		g.jump(done)
		g.place(other)
	}
	g.place(done)
	if w.Op() == prog.Lock {
		g.keep(w.A(), asm.R0)
	}
}
