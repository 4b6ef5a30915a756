package rel

import (
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// A send segment is always in one of four states (USNIC-47), and in exactly one list, by its
// state:
//
//	        Reserve, Post                Progress: transmit
//	Free ──────────────────► Queued ──────────────────────────► InHotel ◄───────────┐
//	 ▲                         │                                 │    │             │
//	 │      Withdraw, Down     │          acknowledged           │    │ lost,       │ Progress:
//	 ├─────────────────────────┴─────────────────────────────────┘    │ timed out   │ retransmit
//	 │                     acknowledged after all                     ▼             │
//	 └───────────────────────────────────────────────────────────── Resend ─────────┘
//
//	Free      on the module's free list, without an owner
//	Queued    on its channel's to-send list; has no sequence number yet
//	InHotel   posted; in its session's flight list and send window, timed by a room of the hotel
//	          (USNIC-46)
//	Resend    on the module's resend list; in its send window, not timed
//
// On a reliable link a segment goes from Queued to Free when its frame is committed.
type segmentState uint8

const (
	stateFree segmentState = iota
	stateQueued
	stateInHotel
	stateResend
)

var stateNames = [...]string{"Free", "Queued", "InHotel", "Resend"}

func (s segmentState) String() string { return stateNames[s] }

// segment is the contents of one packet (USNIC-2): records that were written into it, or one
// piece of a fragment. A piece's bytes stay in the owner's memory and are gathered anew for
// every transmission (USNIC-8, USNIC-23).
//
// Or it is a run: several adjacent pieces of equal length of a long fragment, which go through
// the states as one and cost little more than one of them; see run.go. Statements about the
// packet then hold for the first of them.
type segment struct {
	prev, next *segment // in the list of its state
	endpoint   *Endpoint
	fragment   *Fragment  // to which the piece belongs
	offset     uint64     // of the piece in the fragment
	length     int        // of the piece, in bytes
	filler     int        // bytes of the Void before it
	frames     int        // packets: 1, or more for a run
	cost       int        // bytes of the peer's receive capacity that each takes
	counter    uint64     // packet counter of its last posting
	sentAt     clock.Time // of its last posting
	seq        wire.Seq   // once posted
	room       int32      // in the hotel
	sends      int32      // times it was posted
	state      segmentState
	space      wire.Space // of its sequence number, for life
	channel    wire.Space // whose queue posted it last: retransmissions use the data queue
	control    bool       // has records that must not be refused for lack of memory
	refuses    bool       // has records that give up messages of the peer: see refusal.go
	forgotten  bool       // in no list though InHotel: only with mutate.NoRetransmit

	account *Account // to which it is charged, nil if none

	buf []byte // its records; nil for a piece of a fragment, also a withdrawn one
}

// costs returns the peer's receive capacity that all its packets take, in bytes.
func (g *segment) costs() int { return g.cost * g.frames }

// become moves g to another state. If it is not in state from, that is a bug of this package,
// not an effect of the network, and stops the program.
func (g *segment) become(from, to segmentState) {
	if g.state != from {
		panic(fmt.Sprintf("rel: segment %v %d is %v, not %v", g.space, g.seq, g.state, from))
	}
	g.state = to
}

// segmentList is a doubly linked list through the segments themselves.
type segmentList struct {
	head, tail *segment
	n          int // packets of all of them
}

func (l *segmentList) push(g *segment) { l.insert(g, nil) }

func (l *segmentList) pushFront(g *segment) { l.insert(g, l.head) }

// insert puts g in front of next, which is in the list; at the end if next is nil.
func (l *segmentList) insert(g, next *segment) {
	before := l.tail
	if next != nil {
		before, next.prev = next.prev, g
	} else {
		l.tail = g
	}
	if before != nil {
		before.next = g
	} else {
		l.head = g
	}
	g.prev, g.next = before, next
	l.n += g.frames
}

func (l *segmentList) remove(g *segment) {
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		l.head = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	} else {
		l.tail = g.prev
	}
	g.prev, g.next = nil, nil
	l.n -= g.frames
}

// segmentPool holds the free segments and buffers of a module. It never gives memory back: it
// holds as many as were once in use at one time, and windows, credits and rooms bound that
// (docs/rel.md has the sum).
type segmentPool struct {
	free    *segment
	inUse   int      // packets
	account *Account // to which new segments are charged
	buffers [bufferClasses][][]byte
}

// Buffers come in sizes four times apart, so that a lone short message does not hold a whole
// frame until it is acknowledged.
const (
	leastBuffer   = 512
	bufferClasses = 5 // 512 B, 2 KiB, 8 KiB, 32 KiB, 128 KiB: the last holds the longest record
	slabSegments  = 64
)

func bufferClass(n int) int {
	c := 0
	for size := leastBuffer; size < n; size *= 4 {
		c++
	}
	return c
}

// take returns a free segment, which the caller overwrites.
func (p *segmentPool) take() *segment {
	if p.free == nil {
		slab := make([]segment, slabSegments)
		for i := range slab {
			slab[i].next, p.free = p.free, &slab[i]
		}
	}
	g := p.free
	p.free = g.next
	return g
}

// get returns a segment of frames packets for e, Queued and otherwise empty.
func (p *segmentPool) get(e *Endpoint, s wire.Space, frames int) *segment {
	g := p.take()
	*g = segment{endpoint: e, space: s, channel: s, frames: frames, account: p.account}
	p.inUse += frames
	if g.account != nil {
		g.account.segments += frames
	}
	g.become(stateFree, stateQueued)
	return g
}

// put takes a segment back, which is no longer in any list.
func (p *segmentPool) put(g *segment) {
	p.putBuffer(g.buf)
	p.discharge(g, g.frames)
	*g = segment{next: p.free}
	p.free = g
}

// discharge notes that n packets of a segment are no longer in use.
func (p *segmentPool) discharge(g *segment, n int) {
	p.inUse -= n
	if g.account != nil {
		g.account.segments -= n
	}
}

// buffer returns an empty buffer with room for n bytes.
func (p *segmentPool) buffer(n int) []byte {
	c := bufferClass(n)
	if l := len(p.buffers[c]); l > 0 {
		b := p.buffers[c][l-1]
		p.buffers[c] = p.buffers[c][:l-1]
		return b
	}
	return make([]byte, 0, leastBuffer<<(2*c))
}

func (p *segmentPool) putBuffer(b []byte) {
	if b != nil {
		c := bufferClass(cap(b))
		p.buffers[c] = append(p.buffers[c], b[:0])
	}
}

// grow returns room for n bytes more at the end of g's records, which must not exceed most
// bytes.
func (p *segmentPool) grow(g *segment, n, most int) []byte {
	l := len(g.buf)
	if l+n > cap(g.buf) {
		// It copies at most a few hundred bytes, once or twice in the life of a segment that
		// fills up.
		b := append(p.buffer(min(max(l+n, 2*l), most)), g.buf...)
		p.putBuffer(g.buf)
		g.buf = b
	}
	g.buf = g.buf[:l+n]
	return g.buf[l : l+n : l+n]
}

// segmentBytes is the receive capacity that a segment's frame takes in addition to its records.
const segmentBytes = wire.Overhead + limits.FrameCost
