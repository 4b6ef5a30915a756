// Package crc computes the checksum of frames, CRC-32C, at the speed of the memory that they lie in.
//
// A checksum is the remainder of the bytes, read as a polynomial over two elements, divided by another polynomial. Package
// hash/crc32 divides by an instruction that takes eight bytes each three cycles, or each one if it divides three stretches at a
// time; a full Ethernet frame is too short for much of that. What is here instead folds: a stretch is multiplied by what is
// left of its distance to a later one, and added to that, until one of 16 bytes is left of all. By lanes of 64 bytes:
//
//	bytes   │ a: 256       │ b: 256       │ c: 256       │ 64  │ 64  │ rest
//	        └──── × x²⁰⁴⁸ ►┴──── × x²⁰⁴⁸ ►┘                         │
//	                                      └─ 4 × 64, × x⁵¹² ► ► ► ─┘ 4 × 16, × x³⁸⁴, x²⁵⁶, x¹²⁸ ► 16 ► division
//
// The processor multiplies 64 bytes at a time (AVX-512 with VPCLMULQDQ: fold512_amd64.s), or 32, of four lanes of that width (AVX2 with it:
// fold256_amd64.s): a hypervisor often hides the former, and many processors for laptops have not got it. What is too short to
// fold is divided by that instruction, without the overhead of hash/crc32, which serves where the processor does not multiply so.
package crc

import (
	"hash/crc32"
	"sync"
)

// castagnoli is made when it is first used: that takes a tenth of a millisecond, and most processors do without it.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// Checksum returns the CRC-32C of b: the Castagnoli polynomial, 0x82f63b78 reflected, as in iSCSI and SCTP.
func Checksum(b []byte) uint32 {
	switch {
	case !folds:
		return crc32.Checksum(b, castagnoli())
	case len(b) < leastFolded:
		return ^short(^uint32(0), b)
	}
	return ^fold(^uint32(0), b)
}

// Copy copies b to the beginning of to, which is as long at least, and returns the checksum of what sum is the checksum of with b
// behind it. To do both at once costs little more than to copy: the bytes are in registers anyway. Each is read once, so that the sum is
// that of the copy even if b is written to meanwhile.
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

// leastFolded is the shortest stretch that is folded, in bytes: the four lanes that the wider way begins with. The other one shares the bound.
const leastFolded = 256

// factor is x to the nth, divided by the polynomial, the lowest power in the highest of 33 bits. A product of two such numbers
// comes out shifted by one bit, which the 33rd makes up for.
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
