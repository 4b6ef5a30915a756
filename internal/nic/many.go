package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Many messages to one process go by frames or segments full of them, so that what can be judged once is judged once: which process
// they are for, whether that may be sent to, how much credit there is. Each by itself would pass Send.
//
//	messages ──┬─► batch: one channel, one room, one credit ──► a frame of a link that needs none kept; it leaves
//	           │                                           └──► a segment, held until there are enough
//	           └─► one of several frames ──► a copy that the NIC keeps; its frames are held, too

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

// batch is the first of the messages, as many as have room in one frame or segment.
func (s *Straight) batch(m *vni.StraightSend, messages [][]byte) (b batch) {
	first := len(messages[0])
	b.d, b.space = s.mayLeave(m, first), wire.SpaceFor(first)
	if b.d == nil {
		return b
	}
	ep, credit := b.d.peer.ep, b.d.remote.credit()
	room := ep.MaxRecord(b.space)
	if !ep.Reliable() {
		room = ep.Room(b.space, wire.FragLen+first)
	}
	for _, m := range messages[:min(len(messages), wire.MaxRun)] {
		n, data := b.n+1, b.data+len(m)
		if recordBytes(n, data) > room || stagedCosts(n, data) > credit || wire.SpaceFor(len(m)) != b.space {
			break
		}
		b.n, b.data = n, data
	}
	return b
}

// put writes them where they go, which uses up their numbers and their credit.
func (s *Straight) put(b *batch, to []byte, tag uint64, messages [][]byte) {
	d := b.d
	env := d.envelope(s.p, d.leave(b.n, b.cost()), tag)
	if b.n == 1 {
		wire.PutFrag(to, &env, b.data)
		copy(to[wire.FragLen:], messages[0])
	} else {
		wire.PutRun(to, &env, messages[:b.n])
	}
	s.e.countLeft(s.p, runWayOf[s.as], uint64(b.n), uint64(b.data))
}

// SendSome writes as many of the messages as have room, from the first on, into one frame of a link that needs none kept, and lets it
// go (USNIC-28): one copy, and no segment. Else it writes them into the segment that is open, or a new one, and holds them as Hold does.
// It returns how many; 0 where none may leave now; whether they are held, and what Hold would.
func (s *Straight) SendSome(m *vni.StraightSend, messages [][]byte) (n int, held, enough bool) {
	b := s.batch(m, messages)
	if b.n == 0 {
		return s.keepOne(m, messages[0])
	}
	ways := rel.AsFrame
	if len(messages[0]) <= limits.CopiedMessage {
		ways |= rel.AsPart
	}
	to := s.begin(b.d, b.space, b.bytes(), ways)
	if to == nil {
		return 0, false, false
	}
	s.put(&b, to, m.Tag, messages)
	if s.end(true); s.as == rel.AsFrame {
		return b.n, false, false
	}
	return b.n, true, s.hold(b.n)
}

// keepOne is SendSome for a message that goes in several frames: the NIC keeps a copy (kept.go), and its frames leave with those of the messages behind it.
func (s *Straight) keepOne(m *vni.StraightSend, message []byte) (n int, held, enough bool) {
	d := s.mayLeave(m, len(message))
	if d == nil {
		return 0, false, false
	}
	m.Len = len(message)
	to := s.keep(m, d, WayRunKept)
	if to == nil {
		return 0, false, false
	}
	copy(to, message)
	s.end(true)
	return 1, true, s.hold(1 + len(message)/heldBytes)
}

// heldBytes is of how many bytes of a message in several frames each counts as one that is held: as many as are worth a flush are as long as what the
// kernel takes together.
const heldBytes = (64 << 10) / limits.HeldMessages

// MaySoon reports whether a message of n bytes that could not leave can soon (runcredit.go).
func (s *Straight) MaySoon(m *vni.StraightSend, n int) bool {
	if !s.ready() {
		return false
	}
	d := s.dest(m)
	return d != nil && d.peer != nil && d.queue.n == 0 && d.peer.ep.Up() && d.soon(s.e, n)
}
