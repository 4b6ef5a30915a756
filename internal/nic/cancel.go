package nic

import (
	"errors"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Withdrawal. A process may cancel an operation that it has posted. The answer is always a
// completion, and its status tells what happened: the message, or Cancelled (decision 9). A Cancel
// of an operation that has ended is ignored.

var errWithdrawn = errors.New("nic: withdrawn")

// cancel executes a Cancel command.
func (e *Engine) cancel(p *process, ctx int, which uint32) {
	e.counts[vni.NICCancels]++
	switch {
	case which == vni.CancelReceive && ctx < len(p.recvs) && p.recvs[ctx].state != recvIdle:
		e.cancelReceive(&p.recvs[ctx])
	case which == vni.CancelSend && ctx < len(p.sends) && p.sends[ctx].state != sendIdle:
		if s := &p.sends[ctx]; s.kind == kindCollective {
			e.groups.Cancel(&p.groups, s)
		} else {
			e.abandonSend(s, wire.ReasonCancelled, vni.StatusCancelled)
		}
	default:
		e.counts[vni.NICCancelsLate]++
	}
}

// cancelReceive withdraws a receive that has not been matched. A matched receive gets its message,
// since the sender may already know that it was accepted. The receive is withdrawn after all if
// the message does not arrive completely soon.
func (e *Engine) cancelReceive(r *receive) {
	switch {
	case r.ring != nil:
		e.closeRing(r)
	case r.state == recvPosted:
		e.tellGivenUp(r)
		e.finishReceive(r, &vni.Completion{Status: vni.StatusCancelled})
	case r.state == recvMatched && e.cfg.Defect == mutate.CancelLosesMessage && r.inb.local == nil:
		e.freeInbound(r.inb)
		e.finishReceive(r, &vni.Completion{Status: vni.StatusCancelled})
	case r.state == recvMatched:
		r.recall = true
		e.expiry.recall(r, e.now)
	}
}

// endRecalled ends cancelled receives whose messages have not arrived in time, and refuses the
// messages. A message that has arrived whole waits only for the receive's own process, and its
// sender may know that it was accepted.
func (e *Engine) endRecalled() {
	for r := range over(&e.expiry, &e.expiry.recalled, e.now, func(r *receive) clock.Time { return r.recallEnd }) {
		if r.ring != nil {
			e.endStuck(r)
			continue
		}
		if inb := r.inb; inb != nil && !inb.done {
			e.refuseInbound(inb, wire.ReasonCancelled)
			e.repost(r)
		}
	}
}

// giveUp stops a send in any state and tells the peer, if the peer knows of the send. The caller
// completes the send.
func (e *Engine) giveUp(s *send, why wire.Reason) {
	if s.kind != kindGet && s.inb != nil { // local: the inbound at the receiver forgets it
		inb := s.inb
		s.inb, inb.local = nil, nil
		e.abort(inb)
		return
	}
	if s.again && s.frag.ID == 0 { // a message in its turn must not leave a gap in the numbers
		e.withdrawNumber(s.dest, &s.env, s.frag.Length)
		return
	}
	if s.frag.ID == 0 || s.queued.in != nil { // not left, or left whole
		return
	}
	pr := s.peer
	switch s.kind {
	case kindGet:
		if b := pr.ep.Control(e.now, wire.RefuseLen); b != nil {
			wire.PutRefuse(b, wire.FlagGet, s.frag.ID, s.remote.Slot, s.env.Token, why)
		}
	case kindPut: // the receiver knows the fragment, or has not seen it yet
		e.withdraw(pr, s.frag.ID, &wire.Envelope{})
	default:
		env := s.env
		if env.Tag = 0; s.frag.Type == wire.TypeEager {
			env.Tag = stagedCost(s.frag.Length)
		}
		e.withdraw(pr, s.frag.ID, &env)
	}
	e.stopFragment(s)
}

// withdraw tells a peer that the rest of a fragment will not be sent. The tag is no longer needed;
// its field carries the credit that the fragment has used. If none of its pieces arrives, no other
// record tells the peer of this credit.
func (e *Engine) withdraw(pr *peer, id wire.FragmentID, env *wire.Envelope) {
	if b := pr.ep.Control(e.now, wire.WithdrawLen); b != nil {
		wire.PutWithdraw(b, id, env)
	}
}

// withdrawNumber tells the NIC of d that the message with this number will not come, unless a
// relay has brought it. The message used credit, if anything.
func (e *Engine) withdrawNumber(d *dest, env *wire.Envelope, length uint64) {
	v := *env
	v.Tag = stagedCost(length)
	e.withdraw(d.peer, 0, &v)
}

// stopFragment takes the memory of a send back from rel and from the inbound of a GET.
func (e *Engine) stopFragment(s *send) {
	e.stopGet(s)
	if s.kind != kindGet && s.frag.HeaderLen > 0 && s.frag.Next > 0 && !s.released {
		s.frag.Err = errWithdrawn
		s.peer.ep.Withdraw(e.now, &s.frag)
	}
}

// abandonSend ends a send in any state. It tells the peer why, and its process the status.
func (e *Engine) abandonSend(s *send, why wire.Reason, status vni.Status) {
	switch s.kind {
	case kindMulticast:
		e.stopMulticast(s, why, status)
		return
	case kindProgram:
		e.programs.Forget(s)
	default:
		e.giveUp(s, why)
	}
	e.completeSend(s, status)
}
