package ebpf

import (
	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/internal/wire"
)

const (
	tagLen   = wire.TagLen
	mapSlots = "slots"
)

// dispatcher returns the program that is the first to see each frame for the NIC. It jumps to
// the program that a datagram names. The name is in clear text, and that program checks whether
// the frame is genuine.
func dispatcher(cfg HostConfig) *builder {
	const onStackProgram = -8 // the program's number
	b := newBuilder()
	outer := wire.Outer{Kind: wire.KindDatagram, Flags: wire.FlagTagged}.Word()
	b.function("main")
	b.emit(
		asm.Mov.Reg(asm.R6, asm.R1),
	)
	frame := cfg.Path.headers()
	b.reach(frame+messageAt, labelOn)
	b.emit(
		asm.LoadMem(asm.R1, asm.R5, int16(frame), asm.Word),
		asm.JNE.Imm32(asm.R1, int32(uint32(outer)), labelOn),
		asm.LoadMem(asm.R1, asm.R5, int16(frame+wire.OuterLen+12), asm.Byte),
		asm.JNE.Imm(asm.R1, int32(cfg.Service), labelOn),
		asm.LoadMem(asm.R1, asm.R5, int16(frame+wire.OuterLen+wire.DatagramLen), asm.Word),
		asm.StoreMem(asm.RFP, onStackProgram, asm.R1, asm.Word),
	)
	b.table(asm.R1, mapSlots)
	b.emit(
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, onStackProgram),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, labelOn),
		asm.LoadMem(asm.R3, asm.R0, 0, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R6),
	)
	b.table(asm.R2, mapSteps)
	b.emit(asm.FnTailCall.Call())
	b.place(labelOn)
	b.emit(asm.Mov.Reg(asm.R1, asm.R6))
	b.table(asm.R2, mapSteps)
	b.emit(asm.Mov.Imm(asm.R3, StepOn), asm.FnTailCall.Call(), asm.Mov.Imm(asm.R0, xdpPass), asm.Return())
	return b
}
