package rel

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// receiveWindow knows which segments of one space have arrived (USNIC-44, USNIC-48). All
// segments before next have arrived. top is one after the highest that has arrived. A ring of
// bits, by sequence number modulo its size, covers the segments between:
//
//	… come come │ ? ? come ? come │ nothing yet …
//	            ▲ next            ▲ top              top − next ≤ size ≤ 4,096
//
// Delivery is by arrival, so a bit means both "has arrived" and "was delivered".
type receiveWindow struct {
	next, top wire.Seq
	bits      []uint64 // bit seq % size, which is a power of two; clear outside next … top
	beyond    int32    // while there is a gap: how many have arrived after its newest hole
	defect    mutate.Defect
}

// arrival is the window's verdict on a segment.
type arrival uint8

const (
	arrivedNew  arrival = iota
	arrivedOld          // before next: its ACK was lost (USNIC-49)
	arrivedDup          // beyond next, and has arrived before
	arrivedHigh         // beyond the window; its sender is wrong
)

func (w *receiveWindow) start(first wire.Seq) {
	w.next, w.top = first, first
	w.bits = make([]uint64, limits.FirstRing/64)
}

// size returns how many segments from next on the ring can cover.
func (w *receiveWindow) size() int { return len(w.bits) * 64 }

// gap reports whether a segment is missing before one that has arrived.
func (w *receiveWindow) gap() bool { return w.next != w.top }

// doubtful reports whether there is a hole of which the sender cannot be sure: fewer than
// ReorderFrames segments had arrived after it before the last n.
func (w *receiveWindow) doubtful(n int) bool {
	return w.gap() && int(w.beyond)-n < limits.ReorderFrames
}

// depth returns how far the window is open, in segments.
func (w *receiveWindow) depth() int { return w.top.Sub(w.next) }

// ack returns the last segment before the first missing one.
func (w *receiveWindow) ack() wire.Seq {
	if w.defect == mutate.EarlyAck {
		return w.top.Add(-1)
	}
	return w.next.Add(-1)
}

// place returns the bit of segment s. A division would cost as much as all other work for a
// segment in order.
func (w *receiveWindow) place(s wire.Seq) int { return int(s) & (w.size() - 1) }

func (w *receiveWindow) has(s wire.Seq) bool {
	i := w.place(s)
	return w.bits[i/64]>>(i%64)&1 != 0
}

// judge returns the verdict on segment s, and changes nothing.
func (w *receiveWindow) judge(s wire.Seq) arrival {
	ahead := s.Sub(w.next)
	switch {
	case w.defect == mutate.NoDuplicateCheck && ahead < limits.Window:
		return arrivedNew
	case ahead < 0:
		return arrivedOld
	case ahead >= limits.Window:
		return arrivedHigh
	case ahead < w.size() && w.has(s):
		return arrivedDup
	}
	return arrivedNew
}

// add judges n segments from number s on and, if they are new, notes their arrival. If n is more
// than one, they must be new, and after all others.
func (w *receiveWindow) add(s wire.Seq, n int) (what arrival) {
	for i := range n {
		what = w.addOne(s.Add(i))
	}
	return what
}

func (w *receiveWindow) addOne(s wire.Seq) arrival {
	a := w.judge(s)
	ahead := s.Sub(w.next)
	if a != arrivedNew || ahead < 0 {
		return a
	}
	full := w.size()
	if w.defect == mutate.WindowOffByOne {
		full++
	}
	for ahead >= full {
		w.resize(2 * w.size())
		full = w.size()
	}
	i := w.place(s)
	w.bits[i/64] |= 1 << (i % 64)
	if past := s.Sub(w.top); past >= 0 {
		w.beyond++
		if past > 0 {
			w.beyond = 1
		}
		w.top = s.Add(1)
	}
	for w.next != w.top && w.has(w.next) {
		i := w.place(w.next)
		w.bits[i/64] &^= 1 << (i % 64)
		w.next = w.next.Add(1)
	}
	return a
}

// resize moves the bits to a ring of n, a power of two that is large enough.
func (w *receiveWindow) resize(n int) {
	old := *w
	w.bits = make([]uint64, n/64)
	for s := old.next; s != old.top; s = s.Add(1) {
		if old.has(s) {
			i := w.place(s)
			w.bits[i/64] |= 1 << (i % 64)
		}
	}
}

// shrink gives the memory of a grown ring back if it holds nothing.
func (w *receiveWindow) shrink() {
	if !w.gap() && w.size() > limits.FirstRing {
		w.bits = make([]uint64, limits.FirstRing/64)
	}
}

// selective fills words with the bits of the segments after the first missing one, and returns
// how many words it used. Bit i of word j stands for segment next + 1 + 64·j + i, as in
// wire.Ack.
func (w *receiveWindow) selective(words *[wire.MaxAckWords]uint64) int {
	n := w.top.Sub(w.next) - 1
	if n <= 0 {
		return 0
	}
	mask := len(w.bits) - 1
	count := (n + 63) / 64
	for j := range count {
		i := w.place(w.next.Add(1 + 64*j))
		x := w.bits[i/64] >> (i % 64)
		if i%64 != 0 {
			x |= w.bits[(i/64+1)&mask] << (64 - i%64)
		}
		words[j] = x
	}
	if n%64 != 0 {
		words[count-1] &= 1<<(n%64) - 1
	}
	return count
}
