package rel

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// sendWindow keeps the segments of one space from their first transmission until they are
// acknowledged (USNIC-41, USNIC-42). All segments before base are acknowledged; next is the
// number of the next segment. Between them a slot is nil if its segment was acknowledged
// selectively: rel delivers segments as they arrive, so its receiver never revokes that.
//
//	acknowledged │ seg nil seg seg nil seg │ not sent yet
//	             ▲ base                    ▲ next         next − base ≤ limit ≤ 4,096
type sendWindow struct {
	base, next wire.Seq
	limit      int        // segments that the peer takes beyond the first missing one
	ring       []*segment // by sequence number modulo its size, a power of two
}

func (w *sendWindow) start(first wire.Seq, limit int) {
	w.base, w.next = first, first
	w.limit = limit
	w.ring = make([]*segment, limits.FirstRing)
}

// used returns how many segments lie between base and next.
func (w *sendWindow) used() int { return w.next.Sub(w.base) }

// room returns how many more segments may be sent.
func (w *sendWindow) room() int { return w.limit - w.used() }

func (w *sendWindow) at(s wire.Seq) **segment { return &w.ring[int(s)&(len(w.ring)-1)] }

// push gives segment g the next number, or a run the next numbers. There must be room.
func (w *sendWindow) push(g *segment) {
	for w.used()+g.frames > len(w.ring) {
		w.resize(2 * len(w.ring))
	}
	g.seq = w.next
	w.put(g)
	w.next = w.next.Add(g.frames)
}

// put enters g under its numbers.
func (w *sendWindow) put(g *segment) {
	for i := range g.frames {
		*w.at(g.seq.Add(i)) = g
	}
}

// find returns the segment with number s; nil if it is no longer there.
func (w *sendWindow) find(s wire.Seq) *segment {
	if s.Before(w.base) || !s.Before(w.next) {
		return nil
	}
	return *w.at(s)
}

// forget removes n segments, from number s on.
func (w *sendWindow) forget(s wire.Seq, n int) {
	for i := range n {
		*w.at(s.Add(i)) = nil
	}
}

// settle moves base over the segments that were removed.
func (w *sendWindow) settle() {
	for w.base != w.next && *w.at(w.base) == nil {
		w.base = w.base.Add(1)
	}
}

func (w *sendWindow) resize(n int) {
	old := *w
	w.ring = make([]*segment, n)
	for s := old.base; s != old.next; s = s.Add(1) {
		*w.at(s) = *old.at(s)
	}
}

// shrink gives the memory of a grown ring back if it holds nothing.
func (w *sendWindow) shrink() {
	if w.used() == 0 && len(w.ring) > limits.FirstRing {
		w.ring = make([]*segment, limits.FirstRing)
	}
}
