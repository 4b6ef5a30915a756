package sweep

import (
	"math/bits"
	"sync"
)

// buffers lends out memory for messages, by powers of two. What was given back last is lent first, so that a NIC that
// still reads or writes it is found out.
type buffers struct {
	free [32][][]byte
}

// spare keeps the buffers of runs that are over for the runs to come. Their contents do not matter to them.
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

// put takes a buffer back. It is spoilt at once, so that a late reader finds something else in it.
func (b *buffers) put(p []byte) {
	scribble(p)
	c := class(cap(p))
	b.free[c] = append(b.free[c], p)
}
