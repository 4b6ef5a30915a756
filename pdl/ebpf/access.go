package ebpf

import (
	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// access makes the code of instructions that read or write data or the message. It reports
// whether w is one of them.
func (g *generator) access(w prog.Word) bool {
	r0, r1 := asm.R0, asm.R1
	switch w.Op() {
	case prog.Ld:
		g.far(at(int(w.Imm())), func(at int) { g.load(r0, r1, at) })
		g.keep(w.A(), r0)
	case prog.St:
		g.register(r0, w.A())
		g.far(at(int(w.Imm())), func(at int) { g.store(r1, at, r0) })
	case prog.Ldx:
		g.element(w)
		g.load(r0, r1, 0)
		g.keep(w.A(), r0)
	case prog.Addx:
		g.element(w)
		g.load(r0, r1, 0)
		g.register(r1, w.B())
		g.emit(asm.Add.Reg(r0, r1))
		g.keep(w.A(), r0)
	case prog.Stx:
		g.element(w)
		g.register(r0, w.A())
		g.store(r1, 0, r0)
	case prog.Ldpw, prog.Ldpwi:
		g.packet(w, w.Op() == prog.Ldpw, asm.DWord)
		g.keep(w.A(), r0)
	case prog.Ldpb, prog.Ldpbi:
		g.packet(w, w.Op() == prog.Ldpb, asm.Byte)
		g.keep(w.A(), r0)
	case prog.Addpb:
		g.packet(w, true, asm.Byte)
		g.register(r1, w.B())
		g.emit(asm.Add.Reg(r0, r1))
		g.keep(w.A(), r0)
	default:
		return false
	}
	return true
}

// far calls do with a displacement from R1 that an instruction can hold. It sets R1 for it.
func (g *generator) far(place int, do func(at int)) {
	const reach = 1<<15 - 8
	g.emit(asm.Mov.Reg(asm.R1, asm.R7))
	if place > reach {
		g.emit(asm.Add.Imm(asm.R1, int32(place)))
		place = 0
	}
	do(place)
}

// element puts the address of a variable's element into R1. Register C holds the index.
func (g *generator) element(w prog.Word) {
	v := w.Range()
	g.register(asm.R1, w.C())
	g.emit(
		asm.JGT.Imm(asm.R1, int32(v.Len-1), g.fails(vm.OutOfArray)),
		asm.LSh.Imm(asm.R1, 3),
		asm.Add.Reg(asm.R1, asm.R7),
		asm.Add.Imm(asm.R1, int32(at(v.Base))),
	)
}

// packet loads a word or byte of the message into R0. Its index is imm, or register C plus imm.
// Zeros follow the message.
func (g *generator) packet(w prog.Word, indexed bool, size asm.Size) {
	r1, r2 := asm.R1, asm.R2
	outside := g.fails(vm.OutOfPacket)
	if indexed {
		g.register(r1, w.C())
		g.emit(asm.Add.Imm(r1, w.Imm()))
	} else {
		g.emit(asm.Mov.Imm(r1, w.Imm()))
	}
	g.load(r2, asm.R7, stateLen)
	most := int32(mostLetter - 1)
	if size == asm.DWord {
		g.emit(asm.Add.Imm(r2, 7), asm.RSh.Imm(r2, 3))
		most /= 8
	}
	g.emit(asm.JGE.Reg(r1, r2, outside), asm.JGT.Imm(r1, most, outside))
	if size == asm.DWord {
		g.emit(asm.LSh.Imm(r1, 3))
	}
	g.emit(asm.Add.Reg(r1, asm.R7), asm.LoadMem(asm.R0, r1, atMessage, size))
}
