package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A caller gives a call up when its context ends. Its NIC then tells the receiver's NIC once, in a
// record sent for this alone:
//
//	caller's NIC                                 receiver's NIC
//	─ call, number 7, token t ─────────────────► 7 is matched
//	the receive of the reply is cancelled
//	─ Withdraw, fragment 0, number 7, token t ─► 7 has not come: it is passed over, not received
//	                                             7 has come: t is noted, a reply fails with
//	                                             StatusCancelled
//
// A reply that leaves before the Withdraw arrives finds no receive, and the caller's NIC drops it.
// Between two processes of one NIC there is no such gap: the reply looks for its receive at once.

// leftCall is a call whose envelope has left for another NIC.
type leftCall struct {
	dest   *dest // nil: no call has left
	number uint32
	cost   uint64 // credit, in bytes
}

// givenUpCall identifies a call of a process of a peer.
type givenUpCall struct {
	slot  uint16
	gen   uint32
	token uint32
}

// givenUpCalls holds the newest calls of one peer to one process that were given up. The ring
// holds them in the order in which they were noted. A call whose token is in use again is in the
// ring, but no longer in places.
type givenUpCalls struct {
	places map[givenUpCall]int
	ring   []givenUpCall // grows to limits.CallsGivenUp
	next   int           // place of the next one once the ring is full
}

// givesUpCall reports whether a Withdraw is about a call that has left whole: its message may have
// arrived.
func givesUpCall(id wire.FragmentID, env *wire.Envelope) bool {
	return id == 0 && env.Token&callToken != 0 && env.Flags&wire.FlagReply == 0
}

// expectCall links the receive of a reply to the send of its call. The process posts that send
// next, in the context that the token names.
func (e *Engine) expectCall(r *receive) {
	r.called, r.calledAt = vni.Name{}, vni.Address{}
	if s := r.p.sendAt(int(r.tags.Tag() & 0xffff)); s != nil && r.state == recvPosted && !r.tags.Any() {
		s.answer = r
	}
}

// awaitedBy reports whether r is the posted receive of the reply to s.
func (s *send) awaitedBy(r *receive) bool {
	return r.state == recvPosted && r.reply && r.tags.Tag() == uint64(s.env.Token)
}

// calls tells the receive of the reply which process is called.
func (s *send) calls(at vni.Address) {
	if r := s.answer; r != nil && s.awaitedBy(r) {
		r.called, r.calledAt = s.name, at
	}
}

// called notes, for the receive of its reply, that the envelope of a call has left, and the credit
// that it used.
func (s *send) called(cost uint64) {
	if r := s.answer; r != nil && s.awaitedBy(r) {
		r.call = leftCall{s.dest, s.env.Number, cost}
	}
	s.answer = nil
}

// tellGivenUp tells the NIC of the called process that no receive waits for the reply any more. It
// does nothing if the session of the call has ended, or if the peer is far behind.
func (e *Engine) tellGivenUp(r *receive) {
	d := r.call.dest
	if d == nil || !r.reply || r.p.dests[d.key] != d {
		return
	}
	b := d.peer.ep.Notice(e.now, wire.WithdrawLen)
	if b == nil {
		return
	}
	env := d.envelope(r.p, r.call.number, r.call.cost)
	env.Token = uint32(r.tags.Tag())
	wire.PutWithdraw(b, 0, &env)
	e.counts[vni.NICCallsGivenUp]++
}

// noteGivenUp notes that the sender of a call that has arrived no longer waits.
func (e *Engine) noteGivenUp(src *source, token uint32) {
	c, p := src.credit, src.p
	if c.givenUp == nil {
		c.givenUp = &givenUpCalls{places: make(map[givenUpCall]int)}
	}
	g, k := c.givenUp, givenUpCall{src.key.slot, src.key.gen, token}
	if _, known := g.places[k]; known ||
		c.pr.givenUp >= limits.CallsGivenUpPerPeer && len(g.places) < limits.CallsGivenUp {
		return // a reply is then sent, and the caller's NIC discards it
	}
	p.givenUp++
	c.pr.givenUp++
	if len(g.ring) < limits.CallsGivenUp {
		g.places[k] = len(g.ring)
		g.ring = append(g.ring, k)
	} else {
		p.replaceGivenUp(c, k)
	}
	if p.gaveUp == nil {
		p.gaveUp = make(map[*peer]*credit)
	}
	p.gaveUp[c.pr] = c
}

// replaceGivenUp notes a call in the place of the oldest one.
func (p *process) replaceGivenUp(c *credit, k givenUpCall) {
	g := c.givenUp
	if old := g.ring[g.next]; g.places[old] == g.next {
		// Else it is noted again, at a later place, or forgotten.
		p.forgetGivenUp(c, old)
	}
	g.ring[g.next], g.places[k] = k, g.next
	g.next = (g.next + 1) % len(g.ring)
}

// count returns the number of calls.
func (g *givenUpCalls) count() int {
	if g == nil {
		return 0
	}
	return len(g.places)
}

// forgetGivenUp forgets a call, if it is noted.
func (p *process) forgetGivenUp(c *credit, k givenUpCall) {
	if c.givenUp == nil {
		return
	}
	if _, known := c.givenUp.places[k]; known {
		delete(c.givenUp.places, k)
		p.givenUp--
		c.pr.givenUp--
		if len(c.givenUp.places) == 0 {
			delete(p.gaveUp, c.pr)
		}
	}
}

// forgetAllGivenUp forgets the calls that the processes of a holder have given up.
func (p *process) forgetAllGivenUp(c *credit) {
	n := c.givenUp.count()
	p.givenUp -= n
	c.pr.givenUp -= n
	c.givenUp = nil
	delete(p.gaveUp, c.pr)
}

// callerGaveUp reports whether the process at d has given up its call with this token.
func (e *Engine) callerGaveUp(p *process, d *dest, token uint64) bool {
	c := p.gaveUp[d.peer]
	if c == nil {
		return false
	}
	if e.cfg.Defect == mutate.GivenUpOfAnother {
		return true
	}
	_, known := c.givenUp.places[givenUpCall{d.key.Slot, d.key.Gen, uint32(token)}]
	return known
}

// refuseReply ends a reply for which no caller waits.
func (e *Engine) refuseReply(s *send) {
	e.counts[vni.NICRepliesCancelled]++
	e.completeSend(s, vni.StatusCancelled)
}
