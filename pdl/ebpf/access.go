package ebpf

import (
	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// access makes the code of what reads and writes data and the message. It reports whether the instruction is such.
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

// far has do use R1 and a distance that an instruction can hold to reach a place.
func (g *generator) far(place int, do func(at int)) {
	const reach = 1<<15 - 8
	g.emit(asm.Mov.Reg(asm.R1, asm.R7))
	if place > reach {
		g.emit(asm.Add.Imm(asm.R1, int32(place)))
		place = 0
	}
	do(place)
}

// element leaves in R1 the address of the element of a variable that register C says.
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

// packet leaves in R0 a word or byte of the message: imm, or register C and imm. Behind the message are zeros.
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
