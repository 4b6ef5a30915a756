package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Many messages to one process go by frames or segments full of them, so that what can be judged once is judged once: whom
// they are for, whether that may be sent to, how much credit there is. Each by itself would pass Send.
//
//	messages ──► batch: one channel, one room, one credit ──► SendFrame: a frame of a link that needs none kept; it leaves
//	                                                     └──► SendSegment: a segment, held until there are enough

// batch is messages that go together, by one record: a Run, or a Frag if there is one alone.
type batch struct {
	d     *dest
	space wire.Space
	n     int // of them
	data  int // bytes of them
}

// bytes is the length of their record, and cost the credit that they use.
func (b *batch) bytes() int   { return recordBytes(b.n, b.data) }
func (b *batch) cost() uint64 { return stagedCosts(b.n, b.data) }

// recordBytes is the length of the record of n messages with so many bytes.
func recordBytes(n, data int) int {
	if n == 1 {
		return wire.FragLen + data
	}
	return wire.RunSize(n, data)
}

// stagedCosts is stagedCost of n messages with so many bytes.
func stagedCosts(n, data int) uint64 { return uint64(data + n*limits.StagedOverhead) }

// batch is the first of the messages, as many as have room in so many bytes; room is asked when it is known who they go to.
func (s *Straight) batch(m *vni.StraightSend, messages [][]byte, room func(d *dest, space wire.Space, first int) int) (b batch) {
	b.d, b.space = s.mayLeave(m, len(messages[0])), spaceFor(len(messages[0]))
	if b.d == nil {
		return b
	}
	all, credit := room(b.d, b.space, wire.FragLen+len(messages[0])), b.d.remote.credit()
	for _, m := range messages[:min(len(messages), wire.MaxRun)] {
		n, data := b.n+1, b.data+len(m)
		if recordBytes(n, data) > all || stagedCosts(n, data) > credit || spaceFor(len(m)) != b.space {
			break
		}
		b.n, b.data = n, data
	}
	return b
}

// put writes them where they go, which uses up their numbers and their credit.
func (s *Straight) put(b *batch, way Way, to []byte, tag uint64, messages [][]byte) {
	e, p, d := s.e, s.p, b.d
	env := d.envelope(p, d.leave(b.n, b.cost()), tag)
	if b.n == 1 {
		wire.PutFrag(to, &env, b.data)
		copy(to[wire.FragLen:], messages[0])
	} else {
		wire.PutRun(to, &env, messages[:b.n])
	}
	e.countLeft(p, way, uint64(b.n), uint64(b.data))
	s.ep, s.n = d.peer.ep, 0
}

// SendFrame writes as many of the messages as have room, from the first on, straight into one frame of a link that needs none
// kept, and lets it go: one copy, and no segment (USNIC-28). It returns how many went; 0 where SendSegment or Send may do.
func (s *Straight) SendFrame(m *vni.StraightSend, messages [][]byte) (n int) {
	b := s.batch(m, messages, func(d *dest, space wire.Space, _ int) int {
		if !d.peer.ep.Reliable() {
			return 0
		}
		return d.peer.ep.MaxRecord(space)
	})
	if b.n == 0 {
		return 0
	}
	ep := b.d.peer.ep
	to := ep.Direct(b.space, b.bytes(), s.e.out)
	if to == nil {
		return 0
	}
	s.put(&b, WayRunFrame, to, m.Tag, messages)
	ep.SendDirect(s.e.now, b.space, b.bytes(), s.e.out)
	return b.n
}

// SendSegment writes as many of the messages as have room, from the first on, into the segment that is open, or a new one, and
// holds them as Hold does. It returns how many, 0 where Send may do, and what Hold would.
func (s *Straight) SendSegment(m *vni.StraightSend, messages [][]byte) (n int, enough bool) {
	e, p := s.e, s.p
	e.begin()
	if len(messages[0]) > limits.CopiedMessage || !s.hasRoom() {
		return 0, false
	}
	b := s.batch(m, messages, func(d *dest, space wire.Space, first int) int {
		return d.peer.ep.Room(space, first)
	})
	if b.n == 0 {
		return 0, false
	}
	ep := b.d.peer.ep
	if !ep.Attended() { // its silence will count from e.now
		s.readClock()
	}
	e.rel.Charge(&p.rooms)
	to := ep.Reserve(e.now, b.space, b.bytes())
	e.rel.Charge(nil)
	if to == nil {
		return 0, false
	}
	s.put(&b, WayRunSegment, to, m.Tag, messages)
	return b.n, s.hold(b.n)
}

// MaySoon reports whether a message of n bytes that could not leave can soon (runcredit.go).
func (s *Straight) MaySoon(m *vni.StraightSend, n int) bool {
	if !s.ready() {
		return false
	}
	d := s.dest(m)
	return d != nil && d.peer != nil && d.queue.n == 0 && d.peer.ep.Up() && d.soon(s.e, n)
}
