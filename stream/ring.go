package stream

import (
	"math/bits"
	"sync"
)

// ring is the bytes of a stream that wait to be read. Its memory grows as it needs, and goes to the next that needs as much when a ring that has
// grown is empty: most streams of a process have nothing to keep.
type ring struct {
	mem  []byte // of a power of two
	from int    // where the first byte is, counted without end
	to   int    // … and the next one goes
}

const (
	leastRing = 1 << 10
	keptRing  = 8 << 10 // that an empty ring keeps
)

// spare has memory that rings have given up, by the power of two that it is long.
var spare [mostRing + 1]sync.Pool

// mostRing is the power of two of the longest memory that is kept.
const mostRing = 24

// newMem returns memory for at least need bytes. What it holds is of no meaning.
func newMem(need int) []byte {
	n := bits.Len(uint(max(need, leastRing) - 1))
	if n <= mostRing {
		if mem, ok := spare[n].Get().(*[]byte); ok {
			return *mem
		}
	}
	return make([]byte, 1<<n)
}

// keepMem keeps memory that newMem returned for the next that needs as much.
func keepMem(mem []byte) {
	if n := bits.Len(uint(len(mem) - 1)); len(mem) > keptRing && n <= mostRing && len(mem) == 1<<n {
		spare[n].Put(&mem)
	}
}

// giveUp takes memory back.
func (r *ring) giveUp() {
	keepMem(r.mem)
	r.mem = nil
}

func (r *ring) len() int { return r.to - r.from }

// write adds bytes.
func (r *ring) write(b []byte) {
	if need := r.len() + len(b); need > len(r.mem) {
		r.grow(need)
	}
	at := r.to & (len(r.mem) - 1)
	n := copy(r.mem[at:], b)
	copy(r.mem, b[n:])
	r.to += len(b)
}

func (r *ring) grow(need int) {
	mem := newMem(need)
	n := r.peek(mem[:min(len(mem), r.len())])
	r.giveUp()
	r.mem, r.from, r.to = mem, 0, n
}

// peek copies the first bytes without taking them.
func (r *ring) peek(b []byte) (n int) {
	n = copy(b, r.first())
	if n < len(b) && n < r.len() {
		n += copy(b[n:], r.mem[:r.len()-n])
	}
	return n
}

// first is the bytes that lie side by side at the beginning.
func (r *ring) first() []byte {
	if r.len() == 0 {
		return nil
	}
	at := r.from & (len(r.mem) - 1)
	return r.mem[at:min(at+r.len(), len(r.mem))]
}

// read takes bytes.
func (r *ring) read(b []byte) (n int) {
	n = r.peek(b)
	r.skip(n)
	return n
}

// skip takes bytes that were looked at.
func (r *ring) skip(n int) {
	if r.from += n; r.from == r.to {
		if r.from, r.to = 0, 0; len(r.mem) > keptRing {
			r.giveUp()
		}
	}
}
