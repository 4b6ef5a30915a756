package nic

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A receive is a posted entry of the receive table (QNIX-44, QNIX-45).
//
//	idle ──► posted ──► matched ──► completed: idle again
//	             ▲          │ its sender withdrew
//	             ├──────────┘
//	             └──────── aside ◄── posted: a ring without room
//
// A ring stays posted while messages come into it.
type recvState uint8

const (
	recvIdle    recvState = iota
	recvPosted            // in process.posted, process.bare or process.probes
	recvMatched           // its message is arriving
	recvAside             // a ring, until there is room
)

type receive struct {
	node   node[receive] // in process.posted
	grave  node[receive] // in expiry.doomed
	endAt  clock.Time    // when it ends, if it is doomed
	p      *process
	ctx    int
	state  recvState
	notify bool
	reply  bool // matches replies only
	exact  bool // from exactly this process in this life
	// A Cancel came when it was matched: if its message does not arrive, it ends.
	recall    bool
	orphan    vni.Status // not OK: its sender has gone; if its message does not arrive, it ends
	call      leftCall   // the call whose reply it awaits, once the call's envelope has left
	tags      vni.Tags
	ticket    uint64   // not 0: the ticket of the one message that it takes
	sender    vni.Name // zero: any, unless exact
	from      vni.Address
	watch     rel.Watching // the peer on which it depends
	parts     [][]byte
	refill    *refill    // its memory is a stretch
	ring      *msgRing   // it takes many messages; ring.go
	place     *ringPlace // it is this place, for one message
	space     [limits.Descriptors][]byte
	size      uint64
	seq       uint64 // its place among the posted receives
	inb       *inbound
	recalled  node[receive]        // in expiry.recalled: cancelled while it was matched
	recallEnd clock.Time           // when its message is given up
	wanted    *vni.StraightReceive // the straight receive; nil: it has a context

	since clock.Time // when it was first posted
	// Of a reply to a command's call: the process called; zero if called by address.
	called   vni.Name
	calledAt vni.Address // address of the called process, once known
}

func (r *receive) init(p *process, ctx int) {
	r.p, r.ctx = p, ctx
	r.node.v, r.grave.v, r.recalled.v = r, r, r
}

// startReceive executes a Receive command (QNIX-45): match a message that has arrived, or post.
func (e *Engine) startReceive(p *process, r *receive, code vni.Code) {
	var c vni.ReceiveContext
	err := p.vni.Receive(r.ctx, &c)
	if errors.Is(err, vni.ErrArgument) {
		r.notify = true
		e.rejectReceive(r, err)
		return
	}
	if err != nil {
		e.detach(p, err)
		return
	}
	r.notify = c.Flags&vni.WantNotify != 0
	r.reply = c.Flags&vni.IsReply != 0
	r.tags, r.sender, r.size = vni.TagsOf(c.Tag, c.Flags&vni.AnyTag != 0), c.Sender, c.Len
	r.exact, r.from = c.NIC != 0, vni.Address{NIC: c.NIC, Slot: c.Slot, Gen: c.Gen}
	if c.Flags&vni.Refilled != 0 {
		if r.refill, err = e.newRefill(p, true, true, r.ctx, c.Len); err == nil {
			r.parts = r.refill.parts()
		}
	} else {
		r.parts, err = e.memory(p, true, true, r.ctx, false, c.PoolIndex, c.Size, c.Len, r.space[:0])
	}
	if err == nil && code == vni.CodeReceiveRing {
		err = e.startRing(p, r, &c)
	}
	if err != nil {
		e.rejectReceive(r, err)
		return
	}
	r.ticket = 0
	switch code {
	case vni.CodeReceiveDatagram:
		e.postDatagram(r)
		return
	case vni.CodeProbe:
		e.startProbe(r, c.Most != 0)
		return
	case vni.CodeReceive:
		r.ticket = c.Most
	}
	e.enterReceive(r)
	if r.reply {
		e.expectCall(r)
	}
}

// rejectReceive ends a receive whose arguments are wrong, or exceed what the process may have.
func (e *Engine) rejectReceive(r *receive, err error) {
	e.finishReceive(r, &vni.Completion{Status: statusOf(err)})
	if !errors.Is(err, errNoMemory) {
		e.badArgument(r.p, err)
	}
}

// enterReceive matches a receive with a waiting message, or posts it.
func (e *Engine) enterReceive(r *receive) {
	r.begin(e.now)
	if r.ticket != 0 {
		e.claim(r)
		return
	}
	if e.post(r); r.exact {
		e.doomEnded(r)
	}
}

// begin gives a receive or a probe, of any kind, its place after all others.
func (r *receive) begin(now clock.Time) {
	p := r.p
	r.since = now
	p.libraries.note(r.tags.Tag())
	p.postSeq++
	r.seq, r.recall, r.orphan, r.call.dest = p.postSeq, false, vni.StatusOK, nil
}

// doomEnded dooms a receive or a probe from one process, if it waits although that process has
// already ended.
func (e *Engine) doomEnded(r *receive) {
	if r.state != recvPosted && r.state != recvAside {
		return
	}
	if ended, at := e.ended(r.from); ended {
		e.expiry.doom(r, at)
	}
}

// post searches the waiting messages for one that r wants, oldest first, and posts r if there is
// none (QNIX-48).
func (e *Engine) post(r *receive) {
	p := r.p
	// A ring, too: if a message completes at once, leavePlace does not call again, and the loop
	// below continues.
	r.state = recvMatched
	for p.stray.n > 0 {
		inb := p.stray.find(e, r)
		if inb == nil {
			break
		}
		if r.ring != nil && !e.fits(r, inb.src, inb.length, inb.whole()) {
			if p.served() {
				e.setAside(r)
			}
			return
		}
		e.takeStray(inb)
		if !e.packInbound(r, inb) {
			if e.bind(inb, r); r.ring == nil {
				return
			}
		}
	}
	if r.orphan != vni.StatusOK && !r.coming() { // nothing is left that it could take
		e.endReceive(r, r.orphan)
		return
	}
	r.state = recvPosted
	at := p.posted.tail // nearly always the place; an unmatched receive goes back to its own
	for at != nil && at.v.seq > r.seq {
		at = at.prev
	}
	p.posted.insertAfter(&r.node, at)
	e.watchSender(r)
	if p.unstaged.n > 0 {
		e.overdraw(p)
	}
}

// takeStray takes a message off the unexpected ones: a receive has been posted for it.
func (e *Engine) takeStray(inb *inbound) {
	p := inb.src.p
	p.stray.remove(inb)
	p.account.LongestWait = max(p.account.LongestWait, e.now.Sub(inb.at))
}

// repost handles a receive whose message will not arrive. The receive takes another waiting
// message, or waits again in its old place. It ends if its process has cancelled it, or if its
// sender has gone.
func (e *Engine) repost(r *receive) {
	r.inb = nil
	switch {
	case r.place != nil:
		e.leaveEmpty(r.place)
	case r.recall:
		e.finishReceive(r, &vni.Completion{Status: vni.StatusCancelled})
	case r.ticket != 0:
		e.endReceive(r, vni.StatusWithdrawn)
	case r.refill != nil && r.refill.broken != vni.StatusOK:
		e.endReceive(r, r.refill.broken)
	case r.refill != nil && !r.refill.restart():
		e.endReceive(r, vni.StatusWithdrawn)
	default:
		e.post(r)
	}
}

// endReceive ends a receive for which no message will come.
func (e *Engine) endReceive(r *receive, status vni.Status) {
	e.finishReceive(r, &vni.Completion{Status: status, From: r.sender, NIC: r.from.NIC, Slot: r.from.Slot,
		Gen: r.from.Gen})
}

// wants implements the matching rule (QNIX-19, QNIX-20).
func (r *receive) wants(src *source, env *wire.Envelope) bool {
	if r.reply != (env.Flags&wire.FlagReply != 0) || !r.tags.Take(env.Tag) {
		return false
	}
	if r.exact {
		return src.nic == r.from.NIC && src.key.slot == r.from.Slot && src.key.gen == r.from.Gen
	}
	return r.sender.Is(&src.name) || r.sender.IsZero()
}

// takes reports whether a receive takes a waiting message. A receive with a ticket takes only that
// message.
func (r *receive) takes(inb *inbound) bool {
	return (r.ticket == 0 || r.ticket == inb.ticket) && r.wants(inb.src, &inb.env)
}

// findPosted returns the receive for a message: the first posted one that wants it, or nil.
func (p *process) findPosted(src *source, env *wire.Envelope) *receive {
	for n := p.posted.head; n != nil; n = n.next {
		if n.v.wants(src, env) {
			return n.v
		}
	}
	return nil
}

// watchSender makes rel probe the peer on which a receive from a named source depends: if the peer
// dies, the receive must end (decision 7). The name may have moved to a process of another NIC
// since it was last looked up.
func (e *Engine) watchSender(r *receive) {
	nic := r.from.NIC
	if !r.exact {
		if r.sender.IsZero() {
			return
		}
		n := e.names.Find(&r.sender)
		if n == nil {
			return
		}
		nic = n.NIC
	}
	if pr := e.peerOf(nic); pr != nil {
		r.watch.On(pr.ep)
	} else { // a process of this NIC
		r.watch.Off()
	}
}

// completeReceive ends a receive with a message of length bytes, of which n were delivered.
func (e *Engine) completeReceive(r *receive, src *source, env *wire.Envelope, n, length uint64, status vni.Status) {
	if r.refill != nil && r.refill.broken != vni.StatusOK {
		status = r.refill.broken
	}
	if status == vni.StatusOK && length > r.size {
		status = vni.StatusTruncated
	}
	if status == vni.StatusTruncated {
		e.counts[vni.NICTruncated]++
		r.p.account.Truncated++
	}
	if r.place != nil {
		e.completePlace(r.place, env, n, length)
		return
	}
	c := &e.completion
	if r.wanted != nil {
		c = &r.wanted.Result
	}
	// Field by field: it is some 100 bytes.
	c.Status, c.Len, c.Full, c.Tag, c.Token = status, n, length, env.Tag, env.Token
	c.From, c.NIC, c.Slot, c.Gen = src.name, src.nic, env.SrcSlot, env.SrcGen
	e.finishReceive(r, c)
}

// countReceived counts messages that a process has asked for and got.
func (e *Engine) countReceived(p *process, messages, bytes uint64) {
	e.counts[vni.NICMessagesReceived] += messages
	e.counts[vni.NICBytesReceived] += bytes
	p.account.Received += messages
	p.account.ReceivedBytes += bytes
}

// finishReceive ends a receive and tells its process.
func (e *Engine) finishReceive(r *receive, c *vni.Completion) {
	r.node.remove()
	if r.grave.in != nil {
		r.grave.remove()
	}
	if r.recalled.in != nil {
		r.recalled.remove()
	}
	r.watch.Off()
	forget(r.space[:])
	if r.refill != nil {
		e.freeRefill(r.refill)
		r.refill = nil
	}
	if r.ring != nil {
		e.endRing(r)
	}
	r.inb, r.parts, r.state = nil, nil, recvIdle
	p := r.p
	if r.wanted != nil {
		e.finishStraight(r, c)
		return
	}
	if !p.served() {
		return
	}
	p.ended(c.Status)
	if err := p.vni.Complete(true, r.ctx, c, r.notify); err != nil {
		e.detach(p, fmt.Errorf("receive: %w", err))
		return
	}
	if r.notify {
		e.ring(p)
	}
}

// unmatched visits the receives and probes of messages that have not found a message. An operation
// for the end of a sender or a change of a name must handle all of them. Receives of datagrams
// have no sender.
func (p *process) unmatched(yield func(*receive) bool) {
	for _, r := range p.ringed {
		if r.state == recvAside && !yield(r) {
			return
		}
	}
	for _, l := range [...]*list[receive]{&p.posted, &p.probes} {
		for r := range l.all {
			if !yield(r) {
				return
			}
		}
	}
}

// orphanReceive ends a receive whose sender has gone. A matched receive still gets its message; if
// that does not arrive, it gets another that waits, or ends. A ring first takes the messages that
// wait for it or are on their way into it.
func (e *Engine) orphanReceive(r *receive, status vni.Status) {
	if r.state == recvMatched || r.state == recvAside || r.coming() {
		r.orphan = status
		return
	}
	e.endReceive(r, status)
}

// dropReceives ends the receives of a process that is no longer told of anything.
func (e *Engine) dropReceives(p *process) {
	for r := range p.receives {
		if r.ring != nil {
			e.dropComing(r.ring)
		} else if r.state == recvMatched {
			e.refuseInbound(r.inb, wire.ReasonProcessGone)
		}
		if r.state != recvIdle {
			e.finishReceive(r, &vni.Completion{})
		}
	}
}
