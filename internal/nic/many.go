package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Many messages to one process leave in frames or segments full of them. So the common checks are
// made once: which process they are for, whether it can be sent to, how much credit there is. A
// single message would pass through Send.
//
//	messages ─┬─► batch: one channel, room, credit ─► a frame, if none must be kept; it leaves
//	          │                                    └► a segment, held until there are enough
//	          └─► one of several frames ─► a copy that the NIC keeps; its frames are held, too

// recordBytes returns the length of the record of n messages with data bytes together: a Run, or a
// Frag if n is 1.
func recordBytes(n, data int) int {
	if n == 1 {
		return wire.FragLen + data
	}
	return wire.RunSize(n, data)
}

// stagedCosts returns the staging cost of n messages with data bytes together.
func stagedCosts(n, data int) uint64 { return uint64(data + n*limits.StagedOverhead) }

// batch returns how many of the messages, from the first on, fit one frame or segment to d, and
// their bytes. d is nil if none may leave.
func (s *Straight) batch(m *vni.StraightSend, messages [][]byte) (d *dest, n, data int) {
	first := len(messages[0])
	if d = s.mayLeave(m, first); d == nil {
		return nil, 0, 0
	}
	ep, space, credit := d.peer.ep, wire.SpaceFor(first), d.remote.credit()
	room := ep.MaxRecord(space)
	if !ep.Reliable() {
		room = ep.Room(space, wire.FragLen+first)
	}
	for _, m := range messages[:min(len(messages), wire.MaxRun)] {
		if k := len(m); recordBytes(n+1, data+k) > room || stagedCosts(n+1, data+k) > credit ||
			wire.SpaceFor(k) != space {
			break
		}
		n, data = n+1, data+len(m)
	}
	return d, n, data
}

// put writes n messages with data bytes to their place, and uses up their numbers and their
// credit.
func (s *Straight) put(d *dest, to []byte, tag uint64, messages [][]byte, data int) {
	n := len(messages)
	env := d.envelope(s.p, d.leave(n, stagedCosts(n, data)), tag)
	if n == 1 {
		wire.PutFrag(to, &env, data)
		copy(to[wire.FragLen:], messages[0])
	} else {
		wire.PutRun(to, &env, messages)
	}
	s.e.countLeft(s.p, runWayOf[s.as], uint64(n), uint64(data))
}

// SendSome writes as many of the messages as fit, from the first on, into one frame, if the link
// needs none kept, and sends it (USNIC-28): one copy, and no segment. Otherwise it writes them
// into the open segment, or a new one, and holds them as Hold does. It returns how many it wrote
// (0 if none may leave now), whether they are held, and the result of Hold.
func (s *Straight) SendSome(m *vni.StraightSend, messages [][]byte) (n int, held, enough bool) {
	d, n, data := s.batch(m, messages)
	if n == 0 {
		return s.keepOne(m, messages[0])
	}
	ways := rel.AsFrame
	if len(messages[0]) <= limits.CopiedMessage {
		ways |= rel.AsPart
	}
	to := s.begin(d, wire.SpaceFor(len(messages[0])), recordBytes(n, data), ways)
	if to == nil {
		return 0, false, false
	}
	s.put(d, to, m.Tag, messages[:n], data)
	if s.end(true); s.as == rel.AsFrame {
		return n, false, false
	}
	return n, true, s.hold(n)
}

// keepOne is SendSome for a message of several frames. The NIC keeps a copy (kept.go), and its
// frames leave with those of the messages after it.
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

// heldBytes is how many bytes of a message in several frames count as one held message. As many as
// are worth a flush are then as long as what the kernel takes together.
const heldBytes = (64 << 10) / limits.HeldMessages

// MaySoon reports whether a message of n bytes that cannot leave now can leave soon
// (runcredit.go).
func (s *Straight) MaySoon(m *vni.StraightSend, n int) bool {
	if !s.ready() || s.p.guardOut != nil {
		return false
	}
	d := s.dest(m)
	return d != nil && d.peer != nil && d.queue.n == 0 && d.peer.ep.Up() && d.soon(s.e, n)
}
