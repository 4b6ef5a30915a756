package copier

import "unsafe"

// canStream says that stream is another way than copy.
const canStream = true

// stream is copy past the caches. A core that sees a word that is written after it sees all that it wrote.
func stream(to, from []byte) {
	to = to[:len(from)]
	if head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(to))) & (line - 1)); head < len(from) {
		copy(to, from[:head])
		to, from = to[head:], from[head:]
		if n := len(from) &^ (line - 1); n > 0 {
			streamLines(&to[0], &from[0], n/line)
			to, from = to[n:], from[n:]
		}
	}
	copy(to, from)
}

// streamLines copies so many lines to the beginning of a line.
//
//go:noescape
func streamLines(to, from *byte, lines int)

// ticks is a clock that runs at any pace: 20 ns where the system's takes 40 to 90. It stops when all that was written before
// has found its place.
func ticks() uint64
