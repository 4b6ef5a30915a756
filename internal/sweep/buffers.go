package sweep

import (
	"math/bits"
	"sync"
)

// buffers lends out memory for messages, by powers of two. It lends the buffer that was returned
// last first. So a NIC that still reads or writes a returned buffer is detected.
type buffers struct {
	free [32][][]byte
}

// spare keeps the buffers of ended runs for later runs. Later runs do not depend on the contents.
var spare = sync.Pool{New: func() any { return new(buffers) }}

func newBuffers() *buffers { return spare.Get().(*buffers) }

func (b *buffers) giveBack() { spare.Put(b) }

func class(n int) int { return bits.Len(uint(max(n, 64) - 1)) }

func (b *buffers) take(n int) []byte {
	c := class(n)
	if k := len(b.free[c]); k > 0 {
		p := b.free[c][k-1]
		b.free[c] = b.free[c][:k-1]
		return p[:n]
	}
	return make([]byte, n, 1<<c)
}

// put takes a buffer back. It overwrites the buffer at once, so that a late reader finds
// different bytes.
func (b *buffers) put(p []byte) {
	scribble(p)
	c := class(cap(p))
	b.free[c] = append(b.free[c], p)
}
