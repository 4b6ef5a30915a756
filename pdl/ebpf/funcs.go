package ebpf

import (
	"strconv"

	"github.com/cilium/ebpf/asm"
)

// The functions that the kernel calls for each turn of a loop.
const (
	tryLock  = "lock"
	sumLines = "sumLines" // and In or Out: of the frame that came, or of the reply
	sumWords = "sumWords"
	sumBytes = "sumBytes"

	lineBytes = 32 // that one call takes into a checksum: the calls cost as much as the words

	// lockTries is how often a processor tries to begin while another is at it: some 100 µs, longer than an activation takes.
	lockTries = 1 << 14
)

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// functions makes all of them.
func (g *generator) functions() {
	g.tryLock()
	g.sumLines("In", atFrame)
	g.sumWords("In", atFrame)
	g.sumBytes("In", atFrame)
	if g.sends() {
		g.sumLines("Out", atReply)
		g.sumWords("Out", atReply)
		g.sumBytes("Out", atReply)
	}
}

// tryLock takes the lock, if it is free, and says so where R2 points.
func (g *generator) tryLock() {
	g.function(tryLock)
	taken := g.fresh()
	g.emit(asm.Mov.Reg(asm.R6, asm.R2))
	g.value(asm.R7, mapData, 0)
	g.emit(
		asm.Mov.Imm(asm.R0, 0), asm.Mov.Imm(asm.R1, 1),
		atomic(asm.CmpXchg, asm.R7, asm.R1, asm.DWord, stateLock),
		asm.JNE.Imm(asm.R0, 0, taken),
	)
	g.set(asm.R6, 0, 1)
	g.emit(asm.Mov.Imm(asm.R0, 1), asm.Return())
	g.place(taken)
	g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// sum leaves in R0 the CRC-32C of the first n bytes of a frame.
func (g *generator) sum(which string, frame int, n asm.Register) {
	g.emit(asm.Mov.Imm32(asm.R1, -1))
	g.store(asm.R7, stateSum, asm.R1)
	g.emit(asm.Mov.Reg(asm.R1, n), asm.And.Imm(asm.R1, ^(lineBytes-1)))
	g.store(asm.R7, stateAt, asm.R1)
	g.emit(asm.Mov.Reg(asm.R1, n), asm.RSh.Imm(asm.R1, 5), asm.Mov.Imm(asm.R3, 0))
	g.turns(sumLines + which)
	g.emit(asm.Mov.Reg(asm.R1, n), asm.And.Imm(asm.R1, lineBytes-1), asm.RSh.Imm(asm.R1, 3), asm.Mov.Imm(asm.R3, 0))
	g.turns(sumWords + which)
	g.sumFour(n, frame)
	g.emit(asm.Mov.Reg(asm.R1, n), asm.And.Imm(asm.R1, 3), asm.Mov.Imm(asm.R3, 0))
	g.turns(sumBytes + which)
	g.load(asm.R0, asm.R7, stateSum)
	g.emit(asm.Xor.Imm32(asm.R0, -1))
}

// sumLines takes the R1st 32 bytes of a frame into the checksum.
func (g *generator) sumLines(which string, frame int) {
	g.function(sumLines + which)
	end := g.fresh()
	g.emit(asm.JGT.Imm(asm.R1, mostFrame/lineBytes-1, end), asm.LSh.Imm(asm.R1, 5))
	g.value(asm.R7, mapData, 0)
	g.emit(asm.Add.Reg(asm.R1, asm.R7))
	g.load(asm.R3, asm.R7, stateSum)
	g.value(asm.R4, mapTables, 0)
	for at := 0; at < lineBytes; at += 8 {
		g.sumWord(frame + at)
	}
	g.store(asm.R7, stateSum, asm.R3)
	g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	g.place(end)
	g.emit(asm.Mov.Imm(asm.R0, 1), asm.Return())
}

// sumWord takes the eight bytes at R1 and an offset into the checksum in R3. R4 are the tables; R2 and R5 are used. Only the first four meet the
// checksum so far: the processor looks up the others meanwhile.
func (g *generator) sumWord(at int) {
	r1, r2, r3, r4, r5 := asm.R1, asm.R2, asm.R3, asm.R4, asm.R5
	g.emit(asm.LoadMem(r2, r1, int16(at), asm.Word), asm.Xor.Reg(r2, r3), asm.Mov.Imm(r3, 0))
	for i := 4; i < 8; i++ {
		g.emit(asm.LoadMem(r5, r1, int16(at+i), asm.Byte), asm.LSh.Imm(r5, 2), asm.Add.Reg(r5, r4),
			asm.LoadMem(r5, r5, int16((7-i)*1024), asm.Word), asm.Xor.Reg(r3, r5))
	}
	g.sumMet(7)
}

// sumMet takes the four bytes in R2, which have met the checksum before, into the one in R3. Behind the first of them come more bytes, which choose its
// table.
func (g *generator) sumMet(more int) {
	r2, r3, r4, r5 := asm.R2, asm.R3, asm.R4, asm.R5
	for i := range 4 {
		g.emit(asm.Mov.Reg(r5, r2), asm.And.Imm(r5, 0xff), asm.LSh.Imm(r5, 2), asm.Add.Reg(r5, r4),
			asm.LoadMem(r5, r5, int16((more-i)*1024), asm.Word), asm.Xor.Reg(r3, r5), asm.RSh.Imm(r2, 8))
	}
}

// sumFour takes the next four bytes of a frame into the checksum, if it has n bytes, and so many are left.
func (g *generator) sumFour(n asm.Register, frame int) {
	none := g.fresh()
	g.emit(asm.Mov.Reg(asm.R1, n), asm.And.Imm(asm.R1, 4), asm.JEq.Imm(asm.R1, 0, none))
	g.load(asm.R1, asm.R7, stateAt)
	g.emit(asm.JGT.Imm(asm.R1, mostFrame-4, none), asm.Mov.Reg(asm.R2, asm.R1), asm.Add.Imm(asm.R2, 4))
	g.store(asm.R7, stateAt, asm.R2)
	g.emit(asm.Add.Reg(asm.R1, asm.R7))
	g.load(asm.R3, asm.R7, stateSum)
	g.value(asm.R4, mapTables, 0)
	g.emit(asm.LoadMem(asm.R2, asm.R1, int16(frame), asm.Word), asm.Xor.Reg(asm.R2, asm.R3), asm.Mov.Imm(asm.R3, 0))
	g.sumMet(3)
	g.store(asm.R7, stateSum, asm.R3)
	g.place(none)
}

// sumWords takes the next eight bytes of a frame into the checksum.
func (g *generator) sumWords(which string, frame int) {
	g.function(sumWords + which)
	end := g.fresh()
	g.value(asm.R7, mapData, 0)
	g.load(asm.R1, asm.R7, stateAt)
	g.emit(asm.JGT.Imm(asm.R1, mostFrame-8, end), asm.Mov.Reg(asm.R2, asm.R1), asm.Add.Imm(asm.R2, 8))
	g.store(asm.R7, stateAt, asm.R2)
	g.emit(asm.Add.Reg(asm.R1, asm.R7))
	g.load(asm.R3, asm.R7, stateSum)
	g.value(asm.R4, mapTables, 0)
	g.sumWord(frame)
	g.store(asm.R7, stateSum, asm.R3)
	g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	g.place(end)
	g.emit(asm.Mov.Imm(asm.R0, 1), asm.Return())
}

// sumBytes takes the next byte of a frame into the checksum.
func (g *generator) sumBytes(which string, frame int) {
	g.function(sumBytes + which)
	end := g.fresh()
	r1, r2, r3, r4 := asm.R1, asm.R2, asm.R3, asm.R4
	g.value(asm.R7, mapData, 0)
	g.load(r1, asm.R7, stateAt)
	g.emit(asm.JGT.Imm(r1, mostFrame-1, end), asm.Mov.Reg(r2, r1), asm.Add.Imm(r2, 1))
	g.store(asm.R7, stateAt, r2)
	g.emit(asm.Add.Reg(r1, asm.R7), asm.LoadMem(r2, r1, int16(frame), asm.Byte))
	g.load(r3, asm.R7, stateSum)
	g.value(r4, mapTables, 0)
	g.emit(
		asm.Xor.Reg(r2, r3), asm.And.Imm(r2, 0xff), asm.LSh.Imm(r2, 2), asm.Add.Reg(r4, r2),
		asm.LoadMem(r2, r4, 0, asm.Word), asm.RSh.Imm(r3, 8), asm.Xor.Reg(r3, r2),
	)
	g.store(asm.R7, stateSum, r3)
	g.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	g.place(end)
	g.emit(asm.Mov.Imm(asm.R0, 1), asm.Return())
}
