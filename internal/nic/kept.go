package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// keptSend is a message of several frames that has left by the straight way over a link that may lose it. The NIC keeps a copy until all of it is
// acknowledged, so that the caller has its memory back at once:
//
//	Send ─► room for the payload, in transit memory ─► Sent: its pieces leave as Eagers ─► Released: all are acknowledged, or the session is over
//
// To copy so much takes less than a tenth of the round trip that the caller would wait for the acknowledgement. Its process
// may end meanwhile: the message has left. Since its send has succeeded, no message behind it may be delivered unless it is, too: each piece says
// that the message has its turn as a whole (wire.FlagWhole).
type keptSend struct {
	frag rel.Fragment
	mem  [1][]byte
	peer *peer
}

// transit is what is on its way to others: memory, the messages that are kept there, and the datagram that leaves.
type transit struct {
	stagingPool
	sends  freeList[keptSend]
	kept   int // bytes of these messages
	letter letterOut
}

// keep returns room for the payload of a message that may leave so now, which counts as having gone that way; nil if it may not. What fits a frame waits by a command: it is copied
// there, too, when its turn comes, and one without bytes has no pieces that could leave.
func (s *Straight) keep(m *vni.StraightSend, d *dest, way Way) []byte {
	e, ep := s.e, d.peer.ep
	fits := m.Len <= limits.CopiedMessage && wire.FragLen+m.Len <= ep.MaxRecord(spaceFor(m.Len))
	if fits || e.transit.kept+m.Len > limits.KeptBytes || !ep.TakesWhole(wire.TypeEager, m.Len, &s.p.rooms) {
		return nil
	}
	id, ok := ep.NewFragment()
	if !ok {
		return nil
	}
	k := e.transit.sends.take()
	k.peer, k.mem[0] = d.peer, e.transit.take(m.Len)
	e.transit.kept += m.Len
	f := &k.frag
	f.Owner, f.Space, f.Type, f.ID, f.Parts = k, wire.Data, wire.TypeEager, id, k.mem[:]
	f.Length, f.Limit, f.Next, f.Piece = uint64(m.Len), uint64(m.Len), 0, ep.EvenPieceLen(wire.TypeEager, m.Len)
	env := d.envelope(s.p, d.leave(1, stagedCost(f.Length)), m.Tag)
	if m.Token != 0 || m.Reply {
		s.called(m, &env)
	}
	env.Flags |= wire.FlagWhole
	wire.PutEager(f.HeaderBuf[:], id, 0, f.Length, &env, 0)
	f.HeaderLen, f.Err = wire.EagerLen, nil
	s.kept, s.ep, s.as = k, ep, rel.AsPart
	e.countLeft(s.p, way, 1, f.Length)
	return k.mem[0]
}

// endKept lets the message of keep leave, or leaves it queued if hold.
func (s *Straight) endKept(hold bool) (next clock.Time) {
	s.readClock()
	next = s.ep.PostWhole(s.e.now, &s.kept.frag, &s.p.rooms, hold, s.e.out)
	s.kept = nil
	return next
}

// dropKept gives back what a message was kept in. If the session has ended, it may not have been delivered.
func (e *Engine) dropKept(k *keptSend) {
	if k.frag.Err != nil {
		_, env := wire.Record(k.frag.HeaderBuf[:wire.EagerLen]).Eager()
		e.doubt(k.peer, &env)
	}
	e.transit.kept -= len(k.mem[0])
	e.transit.give(k.mem[0])
	k.peer.ep.FreeFragment(k.frag.ID)
	e.unblockOne(k.peer)
	k.mem[0], k.peer = nil, nil
	e.transit.sends.give(k)
}
