package fault

import (
	"math/bits"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
)

// held is a frame that is not due yet.
type held struct {
	due   clock.Time
	order uint64 // order of arrival, for frames that are due at the same time
	from  link.Addr
	at    netip.Addr // address of this host where it arrived (link.Caps.Reached)
	frame []byte     // from the pool
}

func (h *held) before(o *held) bool {
	if h.due != o.due {
		return h.due < o.due
	}
	return h.order < o.order
}

// queue is a binary heap of held frames, with the next due one at the top. container/heap would
// allocate at every push.
type queue struct {
	heap  []held
	order uint64
	bytes int // memory of the held frames
}

// due returns the time at which the next frame is due.
func (q *queue) due() clock.Time {
	if len(q.heap) == 0 {
		return clock.Never
	}
	return q.heap[0].due
}

func (q *queue) push(due clock.Time, from link.Addr, at netip.Addr, frame []byte) {
	q.order++
	q.bytes += cap(frame)
	q.heap = append(q.heap, held{due, q.order, from, at, frame})
	h := q.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// pop removes the next frame. The queue must not be empty.
func (q *queue) pop() held {
	h := q.heap
	top, last := h[0], len(h)-1
	h[0], h[last] = h[last], held{}
	h = h[:last]
	q.heap = h
	q.bytes -= cap(top.frame)
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return top
		}
		if down+1 < last && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&h[i]) {
			return top
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}

func (q *queue) clear() { *q = queue{order: q.order} }

// pool keeps the memory of frames in size classes, each twice as large as the one before, so
// that a thousand small frames need little memory although a frame may have 64 KiB. Each class
// holds at most as many frames as were held at once.
type pool struct{ classes [classes][][]byte }

const (
	leastClass = 8  // 2^8 = 256 bytes
	mostClass  = 16 // 2^16 = 64 KiB
	classes    = mostClass - leastClass + 1
)

// The largest class holds the largest frame.
var _ [1<<mostClass - limits.MaxFrame]struct{}

// classOf returns the size class of a frame of n bytes.
func classOf(n int) int { return max(bits.Len(uint(max(n, 1)-1)), leastClass) - leastClass }

// sizeOf returns the memory of a frame of n bytes.
func sizeOf(n int) int { return 1 << (classOf(n) + leastClass) }

func (p *pool) get(n int) []byte {
	c := classOf(n)
	free := p.classes[c]
	if len(free) == 0 {
		return make([]byte, n, sizeOf(n))
	}
	last := len(free) - 1
	b := free[last]
	p.classes[c] = free[:last]
	return b[:n]
}

func (p *pool) put(b []byte) {
	c := classOf(cap(b))
	p.classes[c] = append(p.classes[c], b)
}
