package crc

import "golang.org/x/sys/cpu"

// folds says whether this processor has what fold uses. CRC32 is part of SSE4.2.
var folds = cpu.X86.HasSSE42 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ

// fold divides b, of leastFolded bytes or more, behind what crc is left of, without the inversions at both ends.
//
//go:noescape
func fold(crc uint32, b []byte, distances *[12]uint64) uint32

// short is fold of less.
//
//go:noescape
func short(crc uint32, b []byte) uint32

// foldCopy is fold, and copies b to where to points.
//
//go:noescape
func foldCopy(crc uint32, to *byte, b []byte, distances *[12]uint64) uint32
