package ebpf

import (
	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
)

// sends reports whether the program can send.
func (f *flow) sends() bool {
	for pc, w := range f.code {
		if f.reached[pc] && (w.Op() == prog.Send || w.Op() == prog.Sendp) {
			return true
		}
	}
	return false
}

// longest returns the largest length of the answer to a trigger's message, in bytes: at most
// bound, or the length of the message if asked is true and that is more. Both are zero if the
// trigger sends nothing.
func (f *flow) longest(entry int) (bound int, asked bool) {
	seen, open := make([]bool, len(f.code)), []int{entry}
	for len(open) > 0 {
		pc := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch w := f.code[pc]; w.Op() {
		case prog.Sendp: // bytes of the message itself
			asked = true
		case prog.Send:
			bound = max(bound, f.atMost(pc, w.A()+1, w.Range().Len*8))
		}
		next, target := f.leads(pc)
		for _, to := range []int{next, target} {
			if to >= 0 {
				open = append(open, to)
			}
		}
	}
	return bound, asked
}

// bound stores the length of a trigger's longest answer, for room. R8 is the length of the frame
// without its tag.
func (g *generator) bound(entry int) {
	bound, asked := g.longest(entry)
	if !asked {
		g.set(asm.R7, stateBound, int32(bound))
		return
	}
	enough := g.fresh()
	g.emit(asm.Mov.Reg(asm.R1, asm.R8), asm.Sub.Imm(asm.R1, messageAt))
	if bound > 0 {
		g.emit(asm.JGE.Imm(asm.R1, int32(bound), enough), asm.Mov.Imm(asm.R1, int32(bound)))
	}
	g.place(enough)
	g.store(asm.R7, stateBound, asm.R1)
}

// room makes the frame long enough for the longest answer. It does so before the activation,
// since the effects of an activation cannot be undone. If the path does not carry the answer, or
// the driver left too little room behind the frame, the frame goes on to the engine, and the
// program there answers. The counter of the frame is taken by then, so a copy of the frame
// activates nothing.
func (g *generator) room() {
	if !g.sends() {
		return
	}
	fits := g.fresh()
	around := int32(g.o.Path.headers() + messageAt + wire.TagLen)
	g.load(asm.R1, asm.R7, stateBound)
	g.load(asm.R2, asm.R9, sessionMost)
	g.emit(
		asm.JEq.Imm(asm.R1, 0, fits),
		asm.JGT.Reg(asm.R1, asm.R2, labelHand),
		asm.JGT.Imm(asm.R1, mostLetter, labelHand),
		asm.Add.Imm(asm.R1, around),
		asm.LoadMem(asm.R2, asm.RFP, onStackTotal, asm.DWord),
		asm.JLE.Reg(asm.R1, asm.R2, fits),
		asm.StoreMem(asm.RFP, onStackTotal, asm.R1, asm.DWord),
		asm.Sub.Reg(asm.R1, asm.R2),
		asm.Mov.Reg(asm.R2, asm.R1), asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnXdpAdjustTail.Call(),
		asm.JNE.Imm(asm.R0, 0, labelHand),
	)
	g.place(fits)
}

// reply sends the program's message, if any, back to the sender in the received frame.
func (g *generator) reply() {
	if !g.sends() {
		return
	}
	none := g.fresh()
	g.load(asm.R8, asm.R7, stateSent)
	g.emit(asm.JEq.Imm(asm.R8, 0, none))
	g.load(asm.R8, asm.R7, stateSentLen)
	g.emit(asm.JGT.Imm(asm.R8, mostLetter, none)) // never true
	g.head()
	g.tag()
	g.transmit()
	g.place("lost")
	g.emit(asm.Mov.Imm(asm.R1, 1))
	g.count(asm.R7, stateSendsLost, asm.R1)
	g.place(none)
}

// head writes the headers before the message. R8 is first the length of the message, and then
// that of the frame without its tag.
func (g *generator) head() {
	const datagram, program = atReply + wire.OuterLen, atReply + wire.OuterLen + wire.DatagramLen
	outer := wire.Outer{Kind: wire.KindDatagram, Flags: wire.FlagTagged}.Word()
	word := func(at int, src asm.Register) { g.emit(asm.StoreMem(asm.R7, int16(at), src, asm.Word)) }
	g.emit(asm.StoreImm(asm.R7, atReply, int64(int32(uint32(outer))), asm.Word))
	g.emit(asm.LoadMem(asm.R1, asm.R9, sessionReplyIndex, asm.Word))
	word(atReply+4, asm.R1)
	g.emit(asm.Mov.Imm(asm.R1, 1), atomic(asm.FetchAdd, asm.R9, asm.R1, asm.DWord, sessionReplyCounter))
	g.emit(asm.StoreMem(asm.R7, atReply+8, asm.R1, asm.DWord))
	word(datagram, asm.R1) // the id
	g.emit(asm.StoreImm(asm.R7, datagram+4, 0, asm.Word),
		asm.StoreImm(asm.R7, datagram+12, int64(g.o.Service), asm.Half))
	g.emit(asm.Add.Imm(asm.R8, wire.ProgramDatagramLen))
	word(datagram+8, asm.R8)
	g.emit(asm.StoreMem(asm.R7, datagram+14, asm.R8, asm.Half))
	g.load(asm.R1, asm.R7, stateSentTo)
	word(program, asm.R1)
	g.load(asm.R1, asm.R7, stateSentAs)
	word(program+4, asm.R1)
	g.emit(asm.StoreImm(asm.R7, program+8, int64(int32(g.o.ID)), asm.Word))
	g.emit(asm.Add.Imm(asm.R8, wire.OuterLen+wire.DatagramLen))
}

// tag writes the tag. Then R8 is the length of the whole frame.
func (g *generator) tag() {
	g.sum(atReply, asm.R8)
	g.emit(asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Reg(asm.R1, asm.R8))
	g.emit(asm.StoreMem(asm.R1, atReply, asm.R0, asm.DWord)) // and the zero behind it
	g.load(asm.R2, asm.R9, sessionReplyCookie)
	g.store(asm.R1, atReply+8, asm.R2)
	g.emit(asm.Add.Imm(asm.R8, wire.TagLen))
}

// transmit puts the reply in place of the received frame, which has room for it, and turns the
// headers round.
func (g *generator) transmit() {
	headers, same := int32(g.o.Path.headers()), g.fresh()
	g.emit(
		asm.Mov.Reg(asm.R2, asm.R8), asm.Add.Imm(asm.R2, headers),
		asm.LoadMem(asm.R3, asm.RFP, onStackTotal, asm.DWord), asm.Sub.Reg(asm.R2, asm.R3),
		asm.JEq.Imm(asm.R2, 0, same),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnXdpAdjustTail.Call(),
		asm.JNE.Imm(asm.R0, 0, "lost"),
	)
	g.place(same)
	g.emit(
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, headers),
		asm.Mov.Reg(asm.R3, asm.R7), asm.Add.Imm(asm.R3, atReply), asm.Mov.Reg(asm.R4, asm.R8),
		asm.FnXdpStoreBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "lost"),
	)
	g.headers()
	g.emit(asm.Mov.Imm(asm.R1, 1))
	g.count(asm.R7, stateSends, asm.R1)
	g.unlock()
	g.emit(asm.Mov.Imm(asm.R0, xdpTx), asm.Return())
}
