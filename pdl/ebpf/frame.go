package ebpf

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/cilium/ebpf/asm"

	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// Return codes of XDP programs.
const (
	xdpDrop = 1
	xdpPass = 2
	xdpTx   = 3
)

// Stack offsets in main.
const (
	onStackKey   = -8  // the index of a session
	onStackGot   = -16 // 1: the lock is taken
	onStackTotal = -24 // length of the frame with all its headers
	onStackCheck = -32 // UDP checksum so far
)

const (
	labelOn   = "on"   // the frame goes on to the NIC's own program
	labelDrop = "drop" // the frame ends here
	labelFree = "free" // as drop, and releases the lock
	labelHand = "hand" // the engine handles the message, because the answer may not fit here
)

// main is the entry point for a frame that the NIC's own program passes to this program. The
// frame must belong to a known session and hold a complete datagram. Its tag must be valid
// before anything else in it counts, as docs/wire.md says. Any other frame goes on to the
// engine, which checks it again and counts it. A frame whose counter was already taken ends
// here, since the engine has not seen that counter.
//
//	R6 context   R7 address of the map's value   R8 length of the frame   R9 the session
func (g *generator) main() {
	g.function("main")
	g.emit(asm.Mov.Reg(asm.R6, asm.R1))
	g.value(asm.R7, mapData, 0)
	g.fetch()
	g.judge()
	g.checkSum()
	g.fresher()
	g.activate()
	g.settle()
	g.reply()
	g.verdict()
}

// fetch takes the lock and copies the frame to memory.
func (g *generator) fetch() {
	headers := g.o.Path.headers()
	g.emit(
		asm.FnXdpGetBuffLen.Call(), // R1 is its argument
		asm.StoreMem(asm.RFP, onStackTotal, asm.R0, asm.DWord),
	)
	g.reach(headers, labelOn)
	g.emit(
		asm.LoadMem(asm.R8, asm.R5, int16(headers-udpLen+4), asm.Half),
		asm.HostTo(asm.BE, asm.R8, asm.Half),
		asm.JLT.Imm(asm.R8, udpLen+messageAt+wire.TagLen, labelOn),
		asm.JGT.Imm(asm.R8, udpLen+messageAt+mostLetter+wire.TagLen, labelOn),
		asm.Sub.Imm(asm.R8, udpLen),
	)
	g.lock()
	g.emit(
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, int32(headers)),
		asm.Mov.Reg(asm.R3, asm.R7), asm.Add.Imm(asm.R3, atFrame), asm.Mov.Reg(asm.R4, asm.R8),
		asm.FnXdpLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, labelOn+"free"),
	)
}

// lock takes the lock, which is nearly always free.
func (g *generator) lock() {
	had := g.fresh()
	g.emit(
		asm.Mov.Imm(asm.R0, 0), asm.Mov.Imm(asm.R1, 1),
		atomic(asm.CmpXchg, asm.R7, asm.R1, asm.DWord, stateLock),
		asm.JEq.Imm(asm.R0, 0, had),
	)
	g.set(asm.RFP, onStackGot, 0)
	g.emit(asm.Mov.Imm(asm.R1, lockTries), asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, onStackGot))
	g.turns(tryLock)
	g.emit(asm.LoadMem(asm.R1, asm.RFP, onStackGot, asm.DWord), asm.JEq.Imm(asm.R1, 0, "busy"))
	g.place(had)
}

// judge checks the fields of the frame, and finds its session.
func (g *generator) judge() {
	on := labelOn + "free"
	outer := wire.Outer{Kind: wire.KindDatagram, Flags: wire.FlagTagged}.Word()
	const datagram, program = atFrame + wire.OuterLen, atFrame + wire.OuterLen + wire.DatagramLen
	g.emit(
		asm.LoadMem(asm.R1, asm.R7, atFrame, asm.Word),
		asm.JNE.Imm32(asm.R1, int32(uint32(outer)), on),
		asm.LoadMem(asm.R1, asm.R7, datagram+4, asm.Word), // offset
		asm.JNE.Imm(asm.R1, 0, on),
		asm.Mov.Reg(asm.R2, asm.R8), asm.Sub.Imm(asm.R2, wire.OuterLen+wire.DatagramLen+wire.TagLen),
		asm.LoadMem(asm.R1, asm.R7, datagram+8, asm.Word), // total length
		asm.JNE.Reg(asm.R1, asm.R2, on),
		asm.LoadMem(asm.R1, asm.R7, datagram+14, asm.Half), // size
		asm.JNE.Reg(asm.R1, asm.R2, on),
		asm.LoadMem(asm.R1, asm.R7, datagram+12, asm.Half), // service, and a zero
		asm.JNE.Imm(asm.R1, int32(g.o.Service), on),
		asm.LoadMem(asm.R1, asm.R7, program, asm.Word),
		asm.JNE.Imm32(asm.R1, int32(g.o.ID), on),
		asm.LoadMem(asm.R1, asm.R7, atFrame+4, asm.Word),
		asm.StoreMem(asm.RFP, onStackKey, asm.R1, asm.Word),
	)
	g.table(asm.R1, mapSessions)
	g.emit(
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, onStackKey),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, on),
		asm.Mov.Reg(asm.R9, asm.R0),
		// R1 is the tag's address minus its offset.
		asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Reg(asm.R1, asm.R8),
	)
	g.load(asm.R2, asm.R1, atFrame-8)
	g.load(asm.R3, asm.R9, sessionCookie)
	g.emit(
		asm.JNE.Reg(asm.R2, asm.R3, on),
		asm.LoadMem(asm.R2, asm.R1, atFrame-12, asm.Word),
		asm.JNE.Imm(asm.R2, 0, on),
	)
}

// checkSum compares the frame's checksum with the one in the tag.
func (g *generator) checkSum() {
	g.emit(asm.Sub.Imm(asm.R8, wire.TagLen))
	g.sum(atFrame, asm.R8)
	g.emit(
		asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Reg(asm.R1, asm.R8),
		asm.LoadMem(asm.R2, asm.R1, atFrame, asm.Word),
		asm.JNE.Reg(asm.R0, asm.R2, labelOn+"free"),
	)
}

// fresher takes the frame's counter, which must be above the last one. So a datagram that
// another one has overtaken is lost.
func (g *generator) fresher() {
	g.load(asm.R1, asm.R7, atFrame+8)
	g.load(asm.R0, asm.R9, sessionTop)
	g.emit(
		asm.JLE.Reg(asm.R1, asm.R0, "replay"),
		asm.Mov.Reg(asm.R2, asm.R0),
		atomic(asm.CmpXchg, asm.R9, asm.R1, asm.DWord, sessionTop),
		asm.JNE.Reg(asm.R0, asm.R2, "replay"), // another processor has taken a counter meanwhile
	)
}

// activate runs the block of the message's trigger.
func (g *generator) activate() {
	const program = atFrame + wire.OuterLen + wire.DatagramLen
	g.load(asm.R1, asm.R7, stateStatus)
	g.emit(asm.JNE.Imm(asm.R1, statusIdle, "refuse"))
	g.emit(asm.LoadMem(asm.R1, asm.R7, program+4, asm.Word))
	for _, t := range g.m.Triggers {
		g.emit(asm.JEq.Imm32(asm.R1, int32(t.Number), triggerLabel(t)))
	}
	g.jump("refuse")
	for _, t := range g.m.Triggers {
		g.place(triggerLabel(t))
		g.set(asm.R7, stateNext, int32(t.Entry))
		g.bound(t.Entry)
		g.jump("begin")
	}
	g.place("begin")
	g.room()
	g.emit(asm.Mov.Reg(asm.R1, asm.R7), asm.Add.Reg(asm.R1, asm.R8))
	g.set(asm.R1, atFrame, 0) // zeros fill up the last word of the message
	g.emit(asm.Sub.Imm(asm.R8, messageAt))
	g.store(asm.R7, stateLen, asm.R8)
	g.store(asm.R7, at(prog.PacketLen), asm.R8)
	g.load(asm.R1, asm.R9, sessionNIC)
	g.store(asm.R7, at(prog.Source), asm.R1)
	g.load(asm.R1, asm.R9, sessionMost)
	g.store(asm.R7, stateMost, asm.R1)
	g.set(asm.R7, stateFuel, int32(g.o.budget()))
	g.set(asm.R7, stateOutcome, unfinished)
	g.set(asm.R7, stateSent, 0)
	g.emit(asm.Mov.Imm(asm.R1, int32(g.o.budget())), asm.Mov.Imm(asm.R3, 0))
	if g.hasLoops() {
		g.turns(step)
	} else {
		g.emit(asm.Call.Label(step))
	}
}

// settle updates the accounts of the activation.
func (g *generator) settle() {
	ended, going := g.fresh(), g.fresh()
	g.emit(asm.Mov.Imm(asm.R1, 1))
	g.count(asm.R7, stateActivations, asm.R1)
	g.load(asm.R1, asm.R7, stateFuel)
	g.emit(asm.Mov.Imm(asm.R2, int32(g.o.budget())), asm.Sub.Reg(asm.R2, asm.R1))
	g.count(asm.R7, stateInstructions, asm.R2)
	g.load(asm.R1, asm.R7, stateOutcome)
	g.emit(asm.JEq.Imm(asm.R1, outcome(vm.Stopped), "stopped"), asm.JNE.Imm(asm.R1, outcome(vm.Aborted), ended))
	g.load(asm.R1, asm.R7, statePC)
	g.store(asm.R7, stateLastPC, asm.R1)
	g.load(asm.R2, asm.R7, stateCause)
	g.emit(
		asm.And.Imm(asm.R2, 15),
		asm.Mov.Reg(asm.R1, asm.R2), asm.LSh.Imm(asm.R1, 3), asm.Add.Reg(asm.R1, asm.R7),
		asm.Mov.Imm(asm.R3, 1),
	)
	g.count(asm.R1, stateAborts, asm.R3)
	g.emit(asm.JNE.Imm(asm.R2, int32(vm.OutOfBudget), ended))
	g.place("stopped")
	g.set(asm.R7, stateStatus, statusStopped)
	g.jump(going)
	g.place(ended)
	g.place(going)
}

// verdict makes the exits of main. A program that has sent a message has already left through
// reply.
func (g *generator) verdict() {
	one := func(counter int) {
		g.emit(asm.Mov.Imm(asm.R1, 1))
		g.count(asm.R7, counter, asm.R1)
	}
	// After PASS, too: the engine would run the program a second time for this message.
	g.jump(labelFree)
	g.place("replay")
	one(stateReplays)
	g.jump(labelFree)
	g.place("refuse")
	one(stateRefused)
	g.place(labelFree)
	g.unlock()
	g.place(labelDrop)
	g.emit(asm.Mov.Imm(asm.R0, xdpDrop), asm.Return())
	g.place("busy") // the lock is not held
	g.emit(asm.Mov.Imm(asm.R1, 1), atomic(asm.AddAtomic, asm.R7, asm.R1, asm.DWord, stateBusy))
	g.jump(labelDrop)
	if g.sends() {
		g.place(labelHand)
		one(stateHanded)
	}
	g.place(labelOn + "free")
	g.unlock()
	g.place(labelOn)
	g.emit(asm.Mov.Reg(asm.R1, asm.R6))
	g.table(asm.R2, mapSteps)
	g.emit(asm.Mov.Imm(asm.R3, StepOn), asm.FnTailCall.Call(), asm.Mov.Imm(asm.R0, xdpPass), asm.Return())
}

// unlock releases the lock.
func (g *generator) unlock() {
	g.emit(asm.Mov.Imm(asm.R1, 0), atomic(asm.Xchg, asm.R7, asm.R1, asm.DWord, stateLock))
}

func triggerLabel(t prog.Trigger) string { return "trigger" + labelOf(t.Entry) + "_" + itoa(t.Number) }

// tables returns the tables of the checksum for eight bytes at a time: table k holds the
// checksum of a byte followed by k zeros.
func tables() []byte {
	var t [8][256]uint32
	t[0] = *crc32.MakeTable(crc32.Castagnoli)
	b := make([]byte, 0, tablesLen)
	for k := range t {
		for i := range t[k] {
			if k > 0 {
				t[k][i] = t[0][t[k-1][i]&0xff] ^ t[k-1][i]>>8
			}
			b = binary.NativeEndian.AppendUint32(b, t[k][i])
		}
	}
	return b
}

const tablesLen = 8 * 256 * 4
