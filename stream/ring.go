package stream

import (
	"math/bits"
	"sync"
)

// ring is a queue of the bytes of a stream that wait for a Read. Its memory grows on demand. A
// large ring that becomes empty gives its memory to a pool, since most streams of a process hold no
// bytes.
//
//	mem[i] for from <= i < to, with i modulo len(mem)
type ring struct {
	mem  []byte // its length is a power of two
	from int    // position of the first byte; it only grows while the ring has bytes
	to   int    // position behind the last byte
}

const (
	leastRing = 1 << 10 // bytes of the smallest memory
	keptRing  = 8 << 10 // bytes of the largest memory that an empty ring keeps
)

// spare holds unused memory, by the logarithm of its length.
var spare [mostRing + 1]sync.Pool

// mostRing is the logarithm of the longest memory that spare holds.
const mostRing = 24

// newMem returns memory for at least need bytes. Its contents are undefined.
func newMem(need int) []byte {
	n := bits.Len(uint(max(need, leastRing) - 1))
	if n <= mostRing {
		if mem, ok := spare[n].Get().(*[]byte); ok {
			return *mem
		}
	}
	return make([]byte, 1<<n)
}

// keepMem gives memory of newMem to the pool.
func keepMem(mem []byte) {
	if n := bits.Len(uint(len(mem) - 1)); len(mem) > keptRing && n <= mostRing && len(mem) == 1<<n {
		spare[n].Put(&mem)
	}
}

// giveUp gives the ring's memory to the pool.
func (r *ring) giveUp() {
	keepMem(r.mem)
	r.mem = nil
}

// len returns the number of bytes in the ring.
func (r *ring) len() int { return r.to - r.from }

// write adds b at the end.
func (r *ring) write(b []byte) {
	if need := r.len() + len(b); need > len(r.mem) {
		r.grow(need)
	}
	at := r.to & (len(r.mem) - 1)
	n := copy(r.mem[at:], b)
	copy(r.mem, b[n:])
	r.to += len(b)
}

// grow moves the bytes to memory for at least need bytes.
func (r *ring) grow(need int) {
	mem := newMem(need)
	n := r.peek(mem[:min(len(mem), r.len())])
	r.giveUp()
	r.mem, r.from, r.to = mem, 0, n
}

// peek copies the first bytes to b, and returns their number. They stay in the ring.
func (r *ring) peek(b []byte) (n int) {
	n = copy(b, r.first())
	if n < len(b) && n < r.len() {
		n += copy(b[n:], r.mem[:r.len()-n])
	}
	return n
}

// first returns the contiguous bytes at the beginning.
func (r *ring) first() []byte {
	if r.len() == 0 {
		return nil
	}
	at := r.from & (len(r.mem) - 1)
	return r.mem[at:min(at+r.len(), len(r.mem))]
}

// read moves the first bytes to b, and returns their number.
func (r *ring) read(b []byte) (n int) {
	n = r.peek(b)
	r.skip(n)
	return n
}

// skip removes the first n bytes.
func (r *ring) skip(n int) {
	if r.from += n; r.from == r.to {
		if r.from, r.to = 0, 0; len(r.mem) > keptRing {
			r.giveUp()
		}
	}
}
