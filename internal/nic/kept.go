package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/freelist"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// keptSend is a message of several frames that has left over a link that may lose it, by the
// straight way or with others in a run. The NIC keeps a copy until all of it is acknowledged, so
// its process gets the memory back at once:
//
//	keep ─► room for the payload, in transit memory ─► PostWhole: its pieces leave as Eagers
//	     ─► Released: all are acknowledged, or the session is over
//
// The copy takes less than a tenth of the round trip in which a caller would wait for the
// acknowledgement. The process may end meanwhile: the message has left. Since its send has
// succeeded, no later message may be delivered unless this one is, too. So each piece says that
// the message has its turn as a whole (wire.FlagWhole).
type keptSend struct {
	frag rel.Fragment
	mem  [1][]byte
	peer *peer
}

// transit holds data on its way to others: memory, the kept messages, and the outgoing datagram.
type transit struct {
	stagingPool
	sends  freelist.List[keptSend]
	kept   int // bytes of these messages
	letter letterOut
}

// keep starts the copy of a message of n bytes from p to d, and counts it as a message that has
// taken way. It returns nil if the message may not leave now in this way. The caller writes the
// payload and sends it. A message that fits a frame is not kept: it waits as a command, and is
// copied when its turn comes. A message without bytes is not kept either, since it has no pieces.
func (e *Engine) keep(p *process, d *dest, n int, tag uint64, way Way) *keptSend {
	ep := d.peer.ep
	fits := n <= limits.CopiedMessage && wire.FragLen+n <= ep.MaxRecord(wire.SpaceFor(n))
	if fits || e.transit.kept+n > limits.KeptBytes || !ep.TakesWhole(wire.TypeEager, n, &p.rooms) {
		return nil
	}
	id, ok := ep.NewFragment()
	if !ok {
		return nil
	}
	k := e.transit.sends.Take()
	k.peer, k.mem[0] = d.peer, e.transit.take(n)
	e.transit.kept += n
	f := &k.frag
	f.Owner, f.Space, f.Type, f.ID, f.Parts, f.Err = k, wire.Data, wire.TypeEager, id, k.mem[:], nil
	f.Length, f.Limit, f.Next, f.Piece = uint64(n), uint64(n), 0, ep.EvenPieceLen(wire.TypeEager, n)
	env := d.envelope(p, d.leave(1, stagedCost(f.Length)), tag)
	k.address(&env)
	e.countLeft(p, way, 1, f.Length)
	return k
}

// address writes the envelope into all pieces of a message.
func (k *keptSend) address(env *wire.Envelope) {
	env.Flags |= wire.FlagWhole
	wire.PutEager(k.frag.HeaderBuf[:], k.frag.ID, 0, k.frag.Length, env, 0)
	k.frag.HeaderLen = wire.EagerLen
}

// envelope returns the envelope of all its pieces.
func (k *keptSend) envelope() wire.Envelope {
	_, env := wire.Record(k.frag.HeaderBuf[:wire.EagerLen]).Eager()
	return env
}

// keep calls Engine.keep for a message by the straight way. It returns the room for its payload.
func (s *Straight) keep(m *vni.StraightSend, d *dest, way Way) []byte {
	k := s.e.keep(s.p, d, m.Len, m.Tag, way)
	if k == nil {
		return nil
	}
	if m.Token != 0 || m.Reply {
		env := k.envelope()
		s.called(m, d, &env)
		k.address(&env)
	}
	s.kept, s.ep, s.as = k, d.peer.ep, rel.AsPart
	return k.mem[0]
}

// endKept sends the message of keep, or leaves it queued if hold.
func (s *Straight) endKept(hold bool) (next clock.Time) {
	s.readClock()
	next = s.ep.PostWhole(s.e.now, &s.kept.frag, &s.p.rooms, hold, s.e.out)
	s.kept = nil
	return next
}

// dropKept frees the memory of a kept message. If the session has ended, the message may not have
// been delivered.
func (e *Engine) dropKept(k *keptSend) {
	if k.frag.Err != nil {
		env := k.envelope()
		e.doubt(k.peer, &env)
	}
	e.transit.kept -= len(k.mem[0])
	e.transit.give(k.mem[0])
	k.peer.ep.FreeFragment(k.frag.ID)
	e.unblockOne(k.peer)
	k.mem[0], k.peer = nil, nil
	e.transit.sends.Give(k)
}
