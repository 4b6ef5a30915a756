package copier

import "unsafe"

// canStream reports that stream differs from copy.
const canStream = true

// stream copies past the caches. A core that sees a word written afterwards also sees all bytes
// that stream wrote.
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

// streamLines copies a number of lines. to is the beginning of a line.
//
//go:noescape
func streamLines(to, from *byte, lines int)

// ticks reads a clock with an arbitrary rate. It takes 20 ns, the system's clock 40 to 90. It
// first waits until all earlier stores are complete.
func ticks() uint64
