package nic

import (
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// SendFrame writes as many of the messages as have room, from the first on, straight into one frame of a link that needs none
// kept, and lets it go: one copy, and no segment (USNIC-28). Each by itself would pass Send. It returns how many went; 0 where
// Send may do.
func (s *Straight) SendFrame(m *vni.StraightSend, messages [][]byte) (n int) {
	e, p := s.e, s.p
	space := spaceFor(len(messages[0]))
	d := s.mayLeave(m, len(messages[0]))
	if d == nil || !d.peer.ep.Reliable() {
		return 0
	}
	ep, credit := d.peer.ep, d.remote.credit()
	room := ep.MaxRecord(space)
	if wire.FragLen+len(messages[0]) > room {
		return 0
	}
	b := ep.Direct(space, room, e.cfg.Link)
	if b == nil {
		return 0
	}
	env := wire.Envelope{DstSlot: d.key.slot, DstGen: d.key.gen, SrcSlot: p.slot, SrcGen: p.gen, Tag: m.Tag}
	at, spent := 0, uint64(0)
	for _, data := range messages {
		k, cost := wire.FragLen+len(data), stagedCost(uint64(len(data)))
		if k > room-at || spaceFor(len(data)) != space || spent+cost > credit {
			break
		}
		env.Number = d.number
		wire.PutFrag(b[at:], &env, len(data))
		copy(b[at+wire.FragLen:], data)
		e.countMessage(p, vni.StatusOK, uint64(len(data)))
		d.number++
		at += k
		spent += cost
		n++
	}
	s.ep = ep
	d.remote.used += spent
	e.counts[vni.NICStraightSends] += uint64(n)
	ep.SendDirect(space, at, e.cfg.Link)
	e.cfg.Link.Flush(e.now)
	return n
}
