package crc

import "golang.org/x/sys/cpu"

// The folding instructions of this processor. CRC32 is part of SSE4.2. Package cpu reports
// VPCLMULQDQ only together with AVX-512.
var (
	wide  = cpu.X86.HasSSE42 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ
	folds = wide || cpu.X86.HasSSE42 && cpu.X86.HasAVX2 && features7()&(1<<10) != 0
)

// features7 returns ECX of the CPUID instruction for leaf 7. Bit 10 means VPCLMULQDQ. A
// processor with AVX2 has that leaf.
func features7() (ecx uint32)

// distances512 and distances256 hold the factors for folding, two for each lane of 16 bytes: x
// to the distance, in bits, by which the lower and the upper half of the lane move, modulo the
// polynomial. All lanes of a kind move by the same distance, except for the last kind of
// distances512.
var (
	distances512 = [...]uint64{
		0: factor(2048 + 32), 1: factor(2048 - 32), // four lanes of 64 bytes over the next four
		2: factor(512 + 32), 3: factor(512 - 32), // one lane over the next
		4: factor(384 + 32), 5: factor(384 - 32), // its four parts onto the last of them
		6: factor(256 + 32), 7: factor(256 - 32),
		8: factor(128 + 32), 9: factor(128 - 32),
		10: 0, 11: 0, // the last part stays
	}
	distances256 = [...]uint64{
		0: factor(1024 + 32), 1: factor(1024 - 32), // four lanes of 32 bytes over the next four
		2: factor(256 + 32), 3: factor(256 - 32), // one lane over the next
		4: factor(128 + 32), 5: factor(128 - 32), // its lower part onto the upper
	}
)

// fold divides b, of at least leastFolded bytes. crc is the remainder of the bytes before. fold
// does not invert at either end.
func fold(crc uint32, b []byte) uint32 {
	if wide {
		return fold512(crc, b, &distances512)
	}
	return fold256(crc, b, &distances256)
}

// foldCopy is fold, and also copies b to the beginning of to.
func foldCopy(crc uint32, to, b []byte) uint32 {
	first := &to[:len(b)][0]
	if wide {
		return foldCopy512(crc, first, b, &distances512)
	}
	return foldCopy256(crc, first, b, &distances256)
}

//go:noescape
func fold512(crc uint32, b []byte, distances *[12]uint64) uint32

//go:noescape
func foldCopy512(crc uint32, to *byte, b []byte, distances *[12]uint64) uint32

//go:noescape
func fold256(crc uint32, b []byte, distances *[6]uint64) uint32

//go:noescape
func foldCopy256(crc uint32, to *byte, b []byte, distances *[6]uint64) uint32

// short is fold for less than leastFolded bytes.
//
//go:noescape
func short(crc uint32, b []byte) uint32
