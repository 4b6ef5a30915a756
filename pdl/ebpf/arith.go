package ebpf

import (
	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// plain are the instructions with an equivalent eBPF instruction.
var plain = map[prog.Op]asm.ALUOp{
	prog.Add: asm.Add, prog.Sub: asm.Sub, prog.Mul: asm.Mul, prog.And: asm.And, prog.Or: asm.Or, prog.Xor: asm.Xor,
	prog.Shl: asm.LSh, prog.Shr: asm.ArSh, prog.Shru: asm.RSh,
	prog.Addi: asm.Add, prog.Muli: asm.Mul, prog.Andi: asm.And, prog.Ori: asm.Or, prog.Xori: asm.Xor,
	prog.Shli: asm.LSh, prog.Shri: asm.ArSh, prog.Shrui: asm.RSh,
}

// compute makes the code of instructions that compute a word from words. It reports whether w is
// one of them.
func (g *generator) compute(w prog.Word) bool {
	r1, r2 := asm.R1, asm.R2
	switch op := w.Op(); op {
	case prog.Mov:
		g.register(r1, w.B())
	case prog.Ldi:
		g.emit(asm.Mov.Imm(r1, w.Imm()))
	case prog.Ldih:
		g.register(r1, w.A())
		g.emit(asm.LSh.Imm(r1, 32), asm.Mov.Imm32(r2, w.Imm()), asm.Or.Reg(r1, r2))
	case prog.Add, prog.Sub, prog.Mul, prog.And, prog.Or, prog.Xor, prog.Shl, prog.Shr, prog.Shru:
		g.register(r1, w.B())
		g.register(r2, w.C())
		if op == prog.Shl || op == prog.Shr || op == prog.Shru {
			g.emit(asm.And.Imm(r2, 63))
		}
		g.emit(plain[op].Reg(r1, r2))
	case prog.Addi, prog.Muli, prog.Andi, prog.Ori, prog.Xori, prog.Shli, prog.Shri, prog.Shrui:
		g.register(r1, w.B())
		g.emit(plain[op].Imm(r1, w.Imm()))
	case prog.Rsubi:
		g.register(r2, w.B())
		g.emit(asm.Mov.Imm(r1, w.Imm()), asm.Sub.Reg(r1, r2))
	case prog.Maddi:
		g.register(r1, w.B())
		g.register(r2, w.C())
		g.emit(asm.Mul.Imm(r2, w.Imm()), asm.Add.Reg(r1, r2))
	case prog.Addandi:
		g.register(r1, w.B())
		g.emit(asm.Add.Imm(r1, int32(int8(w.C()))), asm.And.Imm(r1, w.Imm()))
	case prog.Seq, prog.Sne, prog.Slt, prog.Sle:
		g.compare(w)
	case prog.Div, prog.Mod, prog.Divi, prog.Modi:
		g.divide(w)
	case prog.Divs, prog.Mods:
		g.divideByPower(w)
	default:
		return false
	}
	g.keep(w.A(), r1)
	return true
}

// compare puts the truth of a comparison into R1.
func (g *generator) compare(w prog.Word) {
	op := map[prog.Op]asm.JumpOp{prog.Seq: asm.JEq, prog.Sne: asm.JNE, prog.Slt: asm.JSLT, prog.Sle: asm.JSLE}[w.Op()]
	holds := g.fresh()
	g.register(asm.R2, w.B())
	g.register(asm.R3, w.C())
	g.emit(asm.Mov.Imm(asm.R1, 1), op.Reg(asm.R2, asm.R3, holds), asm.Mov.Imm(asm.R1, 0))
	g.place(holds)
}

// divide puts the quotient or remainder of signed words into R1. eBPF divides unsigned words, so
// the signs are removed and restored, without jumps: v becomes (v ^ s) − s, with s = v >> 63.
func (g *generator) divide(w prog.Word) {
	r1, r2, r3, r4, r5 := asm.R1, asm.R2, asm.R3, asm.R4, asm.R5
	g.register(r1, w.B())
	if op := w.Op(); op == prog.Div || op == prog.Mod {
		g.register(r2, w.C())
		g.emit(asm.JEq.Imm(r2, 0, g.fails(vm.DivideByZero)))
	} else {
		g.emit(asm.Mov.Imm(r2, w.Imm()))
	}
	g.emit(asm.Mov.Reg(r3, r1), asm.ArSh.Imm(r3, 63), asm.Xor.Reg(r1, r3), asm.Sub.Reg(r1, r3))
	g.emit(asm.Mov.Reg(r4, r2), asm.ArSh.Imm(r4, 63), asm.Xor.Reg(r2, r4), asm.Sub.Reg(r2, r4))
	if op := w.Op(); op == prog.Div || op == prog.Divi {
		g.emit(asm.Div.Reg(r1, r2), asm.Xor.Reg(r3, r4))
	} else {
		g.emit(asm.Mod.Reg(r1, r2))
	}
	g.emit(asm.Mov.Reg(r5, r3), asm.Xor.Reg(r1, r5), asm.Sub.Reg(r1, r5))
}

// divideByPower puts the quotient by 1 << C into R1, or the remainder of the division by imm +
// 1, towards zero.
func (g *generator) divideByPower(w prog.Word) {
	r1, r2 := asm.R1, asm.R2
	g.register(r1, w.B())
	g.emit(asm.Mov.Reg(r2, r1), asm.ArSh.Imm(r2, 63), asm.And.Imm(r2, w.Imm()), asm.Add.Reg(r2, r1))
	if w.Op() == prog.Divs {
		g.emit(asm.Mov.Reg(r1, r2), asm.ArSh.Imm(r1, int32(w.C())&63))
		return
	}
	g.emit(asm.And.Imm(r2, ^w.Imm()), asm.Sub.Reg(r1, r2))
}

// branches are the conditional jumps, with their comparisons.
var branches = map[prog.Op]asm.JumpOp{
	prog.Jeq: asm.JEq, prog.Jne: asm.JNE, prog.Jlt: asm.JSLT, prog.Jle: asm.JSLE,
	prog.Jeqi: asm.JEq, prog.Jnei: asm.JNE, prog.Jlti: asm.JSLT, prog.Jlei: asm.JSLE,
	prog.Jgti: asm.JSGT, prog.Jgei: asm.JSGE,
	prog.Incjlt: asm.JSLT, prog.Incjlti: asm.JSLT,
}

// branch makes the code of a conditional jump.
func (g *generator) branch(w prog.Word) {
	op := w.Op()
	g.charge()
	g.register(asm.R1, w.A())
	if op == prog.Incjlt || op == prog.Incjlti {
		g.emit(asm.Add.Imm(asm.R1, int32(int8(w.C()))))
		g.keep(w.A(), asm.R1)
	}
	pc := g.pc
	to, _ := w.Target(pc)
	label := labelOf(to)
	if to <= pc {
		label = g.fresh()
	}
	switch op {
	case prog.Jeq, prog.Jne, prog.Jlt, prog.Jle, prog.Incjlt:
		g.register(asm.R2, w.B())
		g.emit(branches[op].Reg(asm.R1, asm.R2, label))
	case prog.Incjlti:
		_, number := w.NearLimit()
		g.emit(branches[op].Imm(asm.R1, int32(number), label))
	default:
		g.emit(branches[op].Imm(asm.R1, int32(w.Half()), label))
	}
	if to <= pc {
		beyond := g.fresh()
		g.jump(beyond)
		g.place(label)
		g.goTo(pc, to)
		g.place(beyond)
	}
}
