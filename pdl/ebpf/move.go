package ebpf

import (
	"maps"
	"math"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// Code that moves bytes puts the address of the program's or the message's bytes into R9 and
// their number into R6, after the same checks as in the virtual machine. The bytes on the other
// side are behind a view of the kernel (dynptr), which checks each access at run time. So the
// verifier need not see that an offset and a length fit together.

// bytesPerUnit is the number of bytes that are copied for the price of an instruction, as in the
// virtual machine.
const bytesPerUnit = 6 // a shift: 64

// ofVariable finds n bytes of a variable from an element on. first and n are registers of the
// program.
func (g *generator) ofVariable(v prog.Range, first, n uint8) {
	g.register(asm.R9, first)
	g.register(asm.R6, n)
	g.emit(
		asm.JGT.Imm(asm.R9, int32(v.Len-1), g.fails(vm.OutOfArray)),
		asm.Mov.Imm(asm.R1, int32(v.Len)), asm.Sub.Reg(asm.R1, asm.R9), asm.LSh.Imm(asm.R1, 3),
	)
	long := g.fails(vm.BadLength)
	g.emit(
		asm.JGT.Imm(asm.R6, int32(v.Len*8), long),
		asm.JGT.Reg(asm.R6, asm.R1, long),
		asm.LSh.Imm(asm.R9, 3), asm.Add.Reg(asm.R9, asm.R7), asm.Add.Imm(asm.R9, int32(at(v.Base))),
	)
}

// ofPacket finds n bytes of the message from first on. first counts in units of 1 or 8 bytes.
func (g *generator) ofPacket(first, n uint8, unit int32) {
	outside := g.fails(vm.OutOfPacket)
	g.register(asm.R9, first)
	g.register(asm.R6, n)
	g.load(asm.R1, asm.R7, stateLen)
	g.emit(asm.JGT.Reg(asm.R9, asm.R1, outside), asm.JGT.Imm(asm.R9, mostLetter, outside))
	if unit == 8 {
		g.emit(asm.LSh.Imm(asm.R9, 3), asm.JGT.Reg(asm.R9, asm.R1, outside), asm.JGT.Imm(asm.R9, mostLetter, outside))
	}
	g.emit(
		asm.Sub.Reg(asm.R1, asm.R9),
		asm.JGT.Reg(asm.R6, asm.R1, outside), asm.JGT.Imm(asm.R6, mostLetter, outside),
		asm.Add.Reg(asm.R9, asm.R7), asm.Add.Imm(asm.R9, atMessage),
	)
}

// pay charges for R6 bytes, and aborts the activation if the fuel does not suffice.
func (g *generator) pay() {
	g.emit(
		asm.Mov.Reg(asm.R1, asm.R6), asm.RSh.Imm(asm.R1, bytesPerUnit), asm.Sub.Reg(asm.R8, asm.R1),
		asm.JSLT.Imm(asm.R8, g.used, g.fails(vm.OutOfBudget)),
	)
}

// view makes a view of n bytes at R1.
func (g *generator) view(n int) {
	g.emit(
		asm.Mov.Imm(asm.R2, int32(n)), asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Reg(asm.R4, asm.RFP), asm.Add.Imm(asm.R4, onStackView),
		asm.FnDynptrFromMem.Call(),
	)
}

// put copies the bytes at R9 into the view, at the offset on the stack.
func (g *generator) put() {
	g.emit(
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, onStackView),
		asm.LoadMem(asm.R2, asm.RFP, onStackOffset, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.R9), asm.Mov.Reg(asm.R4, asm.R6), asm.Mov.Imm(asm.R5, 0),
		asm.FnDynptrWrite.Call(),
	)
}

// take copies bytes of the view, from the offset on the stack on, to R9.
func (g *generator) take() {
	g.emit(
		asm.Mov.Reg(asm.R1, asm.R9), asm.Mov.Reg(asm.R2, asm.R6),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, onStackView),
		asm.LoadMem(asm.R4, asm.RFP, onStackOffset, asm.DWord), asm.Mov.Imm(asm.R5, 0),
		asm.FnDynptrRead.Call(),
	)
}

// offset stores the offset into the view on the stack.
func (g *generator) offset(src asm.Register) {
	g.emit(asm.StoreMem(asm.RFP, onStackOffset, src, asm.DWord))
}

// send copies the bytes into the reply, and records its destination. main sends it after the
// activation.
func (g *generator) send(w prog.Word) {
	if w.Op() == prog.Sendp {
		g.ofPacket(w.A(), w.A()+1, w.Imm())
	} else {
		g.ofVariable(w.Range(), w.A(), w.A()+1)
	}
	g.pay()
	refused, bad := g.fails(vm.SendRefused), g.fails(vm.BadAddress)
	most := asm.LoadImm(asm.R3, math.MaxUint32, asm.DWord)
	g.register(asm.R1, w.A()+2)
	g.register(asm.R2, w.A()+3)
	g.emit(most, asm.JGT.Reg(asm.R1, asm.R3, bad), asm.JGT.Reg(asm.R2, asm.R3, bad), asm.JEq.Imm(asm.R2, 0, bad))
	g.store(asm.R7, stateSentAs, asm.R1)
	g.store(asm.R7, stateSentTo, asm.R2)
	g.emit(asm.JGT.Imm(asm.R6, prog.MaxMessage, g.fails(vm.BadLength)))
	g.load(asm.R1, asm.R7, stateMost)
	g.emit(asm.JGT.Reg(asm.R6, asm.R1, refused), asm.JGT.Imm(asm.R6, mostLetter, refused))
	g.emit(asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Imm(asm.R1, atAnswer))
	g.view(mostLetter)
	g.emit(asm.Mov.Imm(asm.R1, 0))
	g.offset(asm.R1)
	g.put()
	g.emit(asm.JNE.Imm(asm.R0, 0, refused))
	g.store(asm.R7, stateSentLen, asm.R6)
	g.set(asm.R7, stateSent, 1)
}

// copy copies bytes of the message into a variable.
func (g *generator) copy(w prog.Word) {
	g.ofVariable(w.Range(), w.A(), w.A()+2)
	g.pay()
	outside := g.fails(vm.OutOfPacket)
	g.register(asm.R2, w.A()+1)
	g.load(asm.R1, asm.R7, stateLen)
	g.emit(asm.JGT.Reg(asm.R2, asm.R1, outside), asm.Sub.Reg(asm.R1, asm.R2), asm.JGT.Reg(asm.R6, asm.R1, outside))
	g.offset(asm.R2)
	g.emit(asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Imm(asm.R1, atMessage))
	g.view(mostLetter)
	g.take()
	g.emit(asm.JNE.Imm(asm.R0, 0, outside))
}

// transfer copies between a program's data, or the message, and a segment.
func (g *generator) transfer(w prog.Word) {
	if w.Op() == prog.Deliverp {
		g.ofPacket(w.A(), w.A()+3, w.Imm())
	} else {
		g.ofVariable(w.Range(), w.A(), w.A()+3)
	}
	g.pay()
	refused, done := g.fails(vm.SegmentRefused), g.fresh()
	for _, id := range slices.Sorted(maps.Keys(g.o.Segments)) {
		s := g.o.Segments[id]
		other := g.fresh()
		g.register(asm.R1, w.A()+2)
		g.emit(asm.LoadImm(asm.R2, int64(id), asm.DWord), asm.JNE.Reg(asm.R1, asm.R2, other))
		g.register(asm.R2, w.A()+1)
		g.emit(
			asm.JGT.Imm(asm.R2, int32(s.Bytes), refused),
			asm.Mov.Imm(asm.R1, int32(s.Bytes)), asm.Sub.Reg(asm.R1, asm.R2),
			asm.JGT.Reg(asm.R6, asm.R1, refused),
		)
		g.offset(asm.R2)
		g.value(asm.R1, segmentMap(id), 0)
		g.view(s.Bytes)
		if w.Op() == prog.Get {
			g.take()
		} else {
			g.put()
		}
		g.emit(asm.JNE.Imm(asm.R0, 0, refused))
		g.jump(done)
		g.place(other)
	}
	g.leave(refused)
	g.place(done)
}
