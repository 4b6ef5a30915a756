package ebpf

import (
	"maps"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/pdl/prog"
)

// serve makes the code of instructions that need the NIC. It reports whether w is one of them.
func (g *generator) serve(w prog.Word) bool {
	switch w.Op() {
	case prog.Wait: // every transfer ends at once
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

// leave jumps away from code that follows. The kernel refuses unreachable code, but does not see
// that this condition always holds.
func (g *generator) leave(to string) {
	g.emit(asm.Mov.Imm(asm.R1, 0), asm.JEq.Imm(asm.R1, 0, to))
}

// Stack offsets in step.
const (
	// A view of memory (dynptr) whose bounds are checked at each access, 16 bytes.
	onStackView   = -16
	onStackRecord = -32 // a record for a ring, 16 bytes
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

// tell puts a record of this program into a ring, with R1 as its value. R0 is then 0 if there
// was room.
func (g *generator) tell(ring string) {
	g.emit(
		asm.StoreMem(asm.RFP, onStackRecord+8, asm.R1, asm.DWord),
		asm.StoreImm(asm.RFP, onStackRecord, int64(int32(g.o.ID)), asm.Word),
		asm.StoreImm(asm.RFP, onStackRecord+4, 0, asm.Word),
	)
	g.table(asm.R1, ring)
	g.emit(
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, onStackRecord),
		asm.Mov.Imm(asm.R3, recordLen), asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
	)
}

// sync reads or clears a lock, or sets a flag. It is a word of one of the segments. There are
// few segments, so the code tries one after the other.
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
			g.tell(mapBells) // if the ring is full, its reader looks at all segments
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
