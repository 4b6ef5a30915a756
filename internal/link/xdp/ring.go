package xdp

import "sync/atomic"

// The four rings of an AF_XDP socket share one structure for two directions: a power of two of
// entries, and two free-running indices. We produce in the rings to the kernel (fill, tx), and
// consume in those from it (rx, completion).
//
//	          consumer            producer
//	             ▼                   ▼
//	┌───┬───┬───┬───┬───┬───┬───┬───┬───┬───┐
//	│   │   │   │ x │ x │ x │ x │ x │   │   │   available: producer − consumer
//	└───┴───┴───┴───┴───┴───┴───┴───┴───┴───┘
//
// Each side keeps copies of both indices. It loads the other side's index only if its copy is
// not enough: so a batch costs one cache line.

// desc is an entry of the rx and tx rings, in the kernel's format.
type desc struct {
	addr   uint64 // offset in the umem
	length uint32
	_      uint32 // options; this link uses none
}

// indices are the words that both sides of a ring share.
type indices struct {
	producer, consumer *uint32
	flags              *uint32
}

// needWakeup is the flag that tells that the kernel does not look at the ring by itself.
const needWakeup = 1

// wants reports whether the kernel must be woken to look at the ring.
func (i *indices) wants() bool { return atomic.LoadUint32(i.flags)&needWakeup != 0 }

// producer is our half of a ring to the kernel.
type producer[T any] struct {
	indices
	entries    []T
	next, last uint32 // index of the next entry; the consumer's index as last loaded
	shown      uint32 // the producer's index that the kernel knows
}

func newProducer[T any](i indices, entries []T) *producer[T] {
	p := atomic.LoadUint32(i.producer)
	return &producer[T]{indices: i, entries: entries, next: p, shown: p, last: atomic.LoadUint32(i.consumer)}
}

// room returns the number of entries that can be written. It loads the consumer's index if its
// copy gives less than want.
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

// show makes the new entries visible to the kernel, and returns their number.
func (p *producer[T]) show() (n uint32) {
	if n = p.next - p.shown; n > 0 {
		p.shown = p.next
		atomic.StoreUint32(p.producer, p.next)
	}
	return n
}

// pending reports whether the kernel has entries that it has not taken.
func (p *producer[T]) pending() bool {
	p.last = atomic.LoadUint32(p.consumer)
	return p.last != p.shown
}

// consumer is our half of a ring from the kernel.
type consumer[T any] struct {
	indices
	entries    []T
	next, last uint32 // index of the next entry; the producer's index as last loaded
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

// get returns the next entry, if there is one, and advances. The entry's place is returned to
// the kernel by done.
func (c *consumer[T]) get() (v T, ok bool) {
	if v, ok = c.peek(); ok {
		c.next++
	}
	return v, ok
}

// any reports whether get would return an entry.
func (c *consumer[T]) any() bool { return c.next != c.last || c.next != atomic.LoadUint32(c.producer) }

// done returns the places of the read entries to the kernel.
func (c *consumer[T]) done() {
	if c.shown != c.next {
		c.shown = c.next
		atomic.StoreUint32(c.consumer, c.next)
	}
}

// kept returns the number of entries that were read, but not returned to the kernel.
func (c *consumer[T]) kept() uint32 { return c.next - c.shown }
