package xdp

import "sync/atomic"

// The four rings of an AF_XDP socket are one thing in two directions: a power of two of entries, two free-running
// indices. On the way to the kernel (fill, tx) we produce; on the way from it (rx, completion) we consume.
//
//	          consumer            producer
//	             ▼                   ▼
//	┌───┬───┬───┬───┬───┬───┬───┬───┬───┬───┐
//	│   │   │   │ x │ x │ x │ x │ x │   │   │   available: producer − consumer
//	└───┴───┴───┴───┴───┴───┴───┴───┴───┴───┘
//
// Each side keeps copies of both indices and looks at the other's only when its copy says that it must: a batch then costs
// one cache line.

// desc is an entry of the rx and tx rings, as the kernel has it.
type desc struct {
	addr   uint64 // in the umem
	length uint32
	_      uint32 // options, of which this link asks none
}

// indices are what both sides of a ring share.
type indices struct {
	producer, consumer *uint32
	flags              *uint32
}

// needWakeup is the flag by which the kernel says that it does not look by itself.
const needWakeup = 1

// wants reports whether the kernel must be woken to look at the ring.
func (i *indices) wants() bool { return atomic.LoadUint32(i.flags)&needWakeup != 0 }

// producer is our half of a ring that we fill.
type producer[T any] struct {
	indices
	entries    []T
	next, last uint32 // next to write; the consumer's index as last seen
	shown      uint32 // the producer's index that the kernel knows
}

func newProducer[T any](i indices, entries []T) *producer[T] {
	p := atomic.LoadUint32(i.producer)
	return &producer[T]{indices: i, entries: entries, next: p, shown: p, last: atomic.LoadUint32(i.consumer)}
}

// room is how many entries can be written, at least want if there are as many.
func (p *producer[T]) room(want uint32) uint32 {
	n := uint32(len(p.entries)) - (p.next - p.last)
	if n < want {
		p.last = atomic.LoadUint32(p.consumer)
		n = uint32(len(p.entries)) - (p.next - p.last)
	}
	return n
}

// put writes one entry; there must be room. The kernel does not see it before show.
func (p *producer[T]) put(v T) {
	p.entries[p.next&uint32(len(p.entries)-1)] = v
	p.next++
}

// show hands what was put to the kernel, and returns how much that was.
func (p *producer[T]) show() (n uint32) {
	if n = p.next - p.shown; n > 0 {
		p.shown = p.next
		atomic.StoreUint32(p.producer, p.next)
	}
	return n
}

// pending reports whether the kernel has not taken everything yet.
func (p *producer[T]) pending() bool {
	p.last = atomic.LoadUint32(p.consumer)
	return p.last != p.shown
}

// consumer is our half of a ring that the kernel fills.
type consumer[T any] struct {
	indices
	entries    []T
	next, last uint32 // next to read; the producer's index as last seen
	shown      uint32
}

func newConsumer[T any](i indices, entries []T) *consumer[T] {
	c := atomic.LoadUint32(i.consumer)
	return &consumer[T]{indices: i, entries: entries, next: c, shown: c, last: c}
}

// peek returns the next entry, if there is one.
func (c *consumer[T]) peek() (v T, ok bool) {
	if c.next == c.last {
		c.last = atomic.LoadUint32(c.producer)
		if c.next == c.last {
			return v, false
		}
	}
	return c.entries[c.next&uint32(len(c.entries)-1)], true
}

// get returns the next entry, if there is one, and goes on to the one behind it. It stays the kernel's until done.
func (c *consumer[T]) get() (v T, ok bool) {
	if v, ok = c.peek(); ok {
		c.next++
	}
	return v, ok
}

// any reports whether get would return an entry.
func (c *consumer[T]) any() bool { return c.next != c.last || c.next != atomic.LoadUint32(c.producer) }

// done lets the kernel have the entries that were read.
func (c *consumer[T]) done() {
	if c.shown != c.next {
		c.shown = c.next
		atomic.StoreUint32(c.consumer, c.next)
	}
}

// kept is how many entries were read that the kernel does not have back.
func (c *consumer[T]) kept() uint32 { return c.next - c.shown }
