// Package crc computes the checksum of frames, CRC-32C, at the speed of the memory that they lie
// in.
//
// A checksum is the remainder of the bytes, read as a polynomial over two elements, divided by
// another polynomial. Package hash/crc32 divides by an instruction that takes eight bytes in
// three cycles, or in one cycle if it divides three stretches at a time. A full Ethernet frame
// is too short to gain much from that. This package folds instead: it multiplies a stretch by
// the remainder of its distance to a later one, and adds the product to that one, until a single
// stretch of 16 bytes is left. With lanes of 64 bytes:
//
//	bytes   │ a: 256       │ b: 256       │ c: 256       │ 64  │ 64  │ rest
//	        └──── × x²⁰⁴⁸ ►┴──── × x²⁰⁴⁸ ►┘                         │
//	                                      └─ 4 × 64, × x⁵¹² ► ► ► ──┘
//	                                         4 × 16, × x³⁸⁴, x²⁵⁶, x¹²⁸ ► 16 ► division
//
// The processor multiplies 64 bytes at a time (AVX-512 with VPCLMULQDQ: fold512_amd64.s), or 32,
// in four lanes of that width (AVX2 with VPCLMULQDQ: fold256_amd64.s). A hypervisor often hides
// the former, and many laptop processors lack it. Stretches too short to fold are divided by the
// instruction above, without the overhead of hash/crc32. A processor without these
// multiplications uses hash/crc32.
package crc

import (
	"hash/crc32"
	"sync"
)

// castagnoli is built at its first use: that takes 0.1 ms, and most processors do not need it.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// Checksum returns the CRC-32C of b: the Castagnoli polynomial, 0x82f63b78 reflected, as in
// iSCSI and SCTP.
func Checksum(b []byte) uint32 {
	switch {
	case !folds:
		return crc32.Checksum(b, castagnoli())
	case len(b) < leastFolded:
		return ^short(^uint32(0), b)
	}
	return ^fold(^uint32(0), b)
}

// Copy copies b to the beginning of to, which must be at least as long. It returns the checksum
// of the bytes that sum covers, followed by b. Both together cost little more than the copy,
// since the bytes are in registers anyway. Each byte is read once, so the checksum is that of
// the copy even if b changes meanwhile.
func Copy(to, b []byte, sum uint32) uint32 {
	if folds && len(b) >= leastFolded {
		return ^foldCopy(^sum, to, b)
	}
	to = to[:copy(to[:len(b)], b)]
	if folds {
		return ^short(^sum, to)
	}
	return crc32.Update(sum, castagnoli(), to)
}

// leastFolded is the shortest stretch that is folded, in bytes: the four lanes with which the
// wider way begins. The other way uses the same limit.
const leastFolded = 256

// factor returns x to the nth, modulo the polynomial, with the lowest power in the highest of 33
// bits. A product of two such numbers is shifted by one bit, and the 33rd bit compensates for
// that.
func factor(n int) uint64 {
	r := uint32(1) << 31 // x to the 0th
	for range n {
		low := r & 1
		r >>= 1
		if low != 0 {
			r ^= crc32.Castagnoli
		}
	}
	return uint64(r) << 1
}
