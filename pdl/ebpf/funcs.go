package ebpf

import (
	"strconv"

	"github.com/cilium/ebpf/asm"
)

// The functions besides main and step. The kernel calls the first for each turn of a loop, and
// main calls the second.
const (
	tryLock  = "lock"
	sumFrame = "sum"

	// lockTries is the number of times that a processor tries to take the lock from another. It
	// lasts some 100 µs, longer than an activation.
	lockTries = 1 << 14
)

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// functions makes these functions.
func (g *generator) functions() {
	g.tryLock()
	g.sumFrame()
}

// tryLock takes the lock if it is free. It then stores 1 where R2 points.
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

// sum puts the CRC-32C of the first n bytes of a frame into R0. frame is the offset of the frame
// in the map's value. R1 to R5 are overwritten.
func (g *generator) sum(frame int, n asm.Register) {
	g.emit(asm.Mov.Imm(asm.R1, int32(frame)), asm.Mov.Reg(asm.R2, n),
		asm.Call.Label(sumFrame), asm.Xor.Imm32(asm.R0, -1))
}

// sumFrame makes the function that sum calls. It is global, so that the kernel verifies its loop
// once, for any arguments, and not for each path to it. The loop is inside the function, since a
// call costs as much time as eight bytes.
//
//	R1 the next bytes   R2 how many are left   R3 the checksum   R4 its tables   R0, R5 scratch
func (g *generator) sumFrame() {
	r0, r1, r2, r3, r4, r5 := asm.R0, asm.R1, asm.R2, asm.R3, asm.R4, asm.R5
	long, short, none := g.fresh(), g.fresh(), g.fresh()
	g.global(sumFrame, "frame", "bytes")
	g.emit(asm.JGT.Imm(r1, atReply, none), asm.JGT.Imm(r2, mostFrame, none))
	g.value(r5, mapData, 0)
	g.emit(asm.Add.Reg(r1, r5), asm.Mov.Imm32(r3, -1))
	g.value(r4, mapTables, 0)
	g.place(long)
	g.emit(asm.JLT.Imm(r2, 8, short), asm.LoadMem(r0, r1, 0, asm.Word), asm.Xor.Reg(r0, r3), asm.Mov.Imm(r3, 0))
	// These bytes are not combined with the checksum yet: the processor looks them up in
	// parallel with the four that are.
	for i := 4; i < 8; i++ {
		g.emit(asm.LoadMem(r5, r1, int16(i), asm.Byte), asm.LSh.Imm(r5, 2), asm.Add.Reg(r5, r4),
			asm.LoadMem(r5, r5, int16((7-i)*1024), asm.Word), asm.Xor.Reg(r3, r5))
	}
	g.sumMet(7)
	g.emit(asm.Add.Imm(r1, 8), asm.Add.Imm(r2, -8))
	g.jump(long)
	g.place(short)
	bytes := g.fresh()
	g.emit(asm.JLT.Imm(r2, 4, bytes), asm.LoadMem(r0, r1, 0, asm.Word), asm.Xor.Reg(r0, r3), asm.Mov.Imm(r3, 0))
	g.sumMet(3)
	g.emit(asm.Add.Imm(r1, 4), asm.Add.Imm(r2, -4))
	g.place(bytes)
	end := g.fresh()
	for i := range 3 {
		g.emit(
			asm.JLE.Imm(r2, int32(i), end), asm.LoadMem(r0, r1, int16(i), asm.Byte), asm.Xor.Reg(r0, r3),
			asm.And.Imm(r0, 0xff), asm.LSh.Imm(r0, 2), asm.Add.Reg(r0, r4), asm.LoadMem(r0, r0, 0, asm.Word),
			asm.RSh.Imm(r3, 8), asm.Xor.Reg(r3, r0),
		)
	}
	g.place(end)
	g.emit(asm.Mov.Reg(r0, r3), asm.Return())
	g.place(none) // never reached
	g.emit(asm.Mov.Imm(r0, 0), asm.Return())
}

// sumMet adds four bytes to the checksum in R3. The bytes are in R0 and are already combined
// with the previous checksum. more is the number of bytes after the first of them, and selects
// its table. A table entry has four bytes.
func (g *generator) sumMet(more int) {
	r0, r3, r4, r5 := asm.R0, asm.R3, asm.R4, asm.R5
	for i := range 4 {
		g.emit(asm.Mov.Reg(r5, r0))
		if i == 0 {
			g.emit(asm.LSh.Imm(r5, 2))
		} else {
			g.emit(asm.RSh.Imm(r5, int32(8*i-2)))
		}
		g.emit(asm.And.Imm(r5, 0xff<<2), asm.Add.Reg(r5, r4),
			asm.LoadMem(r5, r5, int16((more-i)*1024), asm.Word), asm.Xor.Reg(r3, r5))
	}
}
