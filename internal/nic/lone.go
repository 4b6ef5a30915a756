package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Most calls find nothing under way but themselves: a question, its answer, the next question. For them the straight way is shorter
// still. Post writes the frame of a message in one go, where the link takes it so. On links that implement Peek, as shared memory and AF_XDP do, the
// receiving goroutine inspects the next frame itself:
//
//	Expect: no receive is posted, no message is unexpected, and the last sender is known
//	   │ a frame comes
//	   ▼
//	Meet: it is that message ──► from the ring to the caller's memory; it was never posted, and never queued
//	   │ it is anything else
//	   ▼
//	Receive, and a Poll, as ever
//
// The caller has the engine from Expect to the end of Meet, so that nothing changes in between. Credit, order, accounts and counts are those of
// Send and Receive. What is met is accounted for a little later, while the answer is on its way: by whatever uses the engine next, other than
// Post, which asks for nothing of it.

// awaited is what a Straight expects from the link.
type awaited struct {
	src  *source
	ep   *rel.Endpoint // of its NIC
	from link.Addr
	head wire.Lone // of frames between src and the process
	tags vni.Tags
}

// met is a message that has been taken out of the link and given to its receiver, and is not accounted for yet.
type met struct {
	src   *source // nil: none
	frame int     // bytes, which the link still has
	bytes uint64
	cost  uint64 // credit
}

// Post sends a message in one step, if it can leave at once, in a frame of its own. It returns when the engine must be polled at the
// latest.
func (s *Straight) Post(to *vni.Name, tag uint64, payload []byte) (next clock.Time, ok bool) {
	n := len(payload)
	if n > limits.StagedMessage || !s.usable() || s.p.guardOut != nil {
		return clock.Never, false
	}
	d := s.named(to, 0)
	if d == nil || !d.open(n) {
		return clock.Never, false
	}
	e, p := s.e, s.p
	d.lone.SetMessage(d.number, tag, n)
	way := WayPosted
	if d.peer.ep.Reliable() {
		next, ok = clock.Never, d.peer.ep.PostLone(e.now, &d.lone, payload)
	} else {
		way = WayPostedKept
		next, ok = s.postKept(d, payload)
	}
	if ok {
		d.leave(1, stagedCost(uint64(n)))
		e.countLeft(p, way, 1, uint64(n))
	}
	return next, ok
}

// postKept is Post over a link that may lose the message: it is kept when it has left.
func (s *Straight) postKept(d *dest, payload []byte) (next clock.Time, ok bool) {
	b := s.begin(d, wire.Command, wire.FragLen+len(payload), rel.AsSingle)
	if b == nil {
		return clock.Never, false
	}
	d.lone.PutFrag(b)
	copy(b[wire.FragLen:], payload)
	return s.Sent(), true
}

// Expect gets ready for the next message of the last sender, if a receive from that sender, or any, with that tag, or any,
// would be posted before all others now and not find a message that has come already. Meet may follow, as long as the engine is not
// used for anything else.
func (s *Straight) Expect(from *vni.Name, tag uint64, anyTag bool) bool {
	p, x := s.p, &s.awaited
	src := p.lastSource
	if s.e.caps.Peek == nil || src == nil || p.posted.n+p.stray.n > 0 || p.guard != nil || !s.ready() {
		return false
	}
	if src.credit == nil || !src.named || src.early.n > 0 || !(from.Is(&src.name) || from.IsZero()) {
		return false
	}
	addr, ok := src.key.peer.ep.Peeks()
	if !ok {
		return false
	}
	if x.src != src {
		x.src, x.ep = src, src.key.peer.ep
		x.head = wire.LoneOf(&wire.Envelope{DstSlot: p.slot, DstGen: p.gen, SrcSlot: src.key.slot, SrcGen: src.key.gen})
	}
	x.from, x.tags = addr, vni.TagsOf(tag, anyTag)
	p.libraries.note(tag)
	return true
}

// Meet takes the message that is expected into buf, if that is what the link has next, whole, and has room there.
func (s *Straight) Meet(now clock.Time, buf []byte) vni.Met {
	e, x := s.e, &s.awaited
	frame := e.caps.Peek(x.from)
	src := x.src
	record := x.ep.Peek(frame)
	if !x.head.Heads(record, src.expected) {
		return vni.Met{}
	}
	tag, payload := wire.FragTag(record), record[wire.FragLen:]
	n, cost := uint64(len(payload)), stagedCost(uint64(len(payload)))
	if !x.tags.Take(tag) && e.cfg.Defect != mutate.MetAnyTag || len(payload) > len(buf) && e.cfg.Defect != mutate.MetCutShort || !src.credit.covers(cost) {
		return vni.Met{}
	}
	e.now = max(e.now, now)
	x.ep.Take(e.now)
	copy(buf, payload)
	e.counts[vni.NICCopiedIn] += n
	src.expected++
	w := &e.met // field by field: a whole one is put together elsewhere, and copied by longer words than it was written by
	w.src, w.frame, w.bytes, w.cost = src, len(frame), n, cost
	if e.tellsCredit(src, cost) { // then there is something to send, and Due says so
		e.begin()
	}
	return vni.Met{From: src.whole(), Tag: tag, Len: len(payload)}
}

// begin is the door of the engine: whatever is called from outside passes it before it touches anything, so that nothing that
// was deferred is overtaken. A test holds that.
func (e *Engine) begin() {
	if e.met.src != nil {
		e.account()
	}
}

// beginAt is begin at a time, which may lag the engine's own: a direct send may have advanced that. It returns the later one.
func (e *Engine) beginAt(now clock.Time) clock.Time {
	e.begin()
	e.now = max(e.now, now)
	return e.now
}

func (e *Engine) account() {
	m := e.met
	e.met.src = nil
	e.rel.Settle()
	e.caps.Pass(e.now, m.frame)
	if e.cfg.Defect != mutate.MetUnspent {
		m.src.credit.spend(e.now, m.cost)
	}
	e.restoreCredit(m.src, m.cost)
	e.countReceived(m.src.p, 1, m.bytes)
	e.counts[vni.NICStraightReceives]++
	e.counts[vni.NICMet]++
}

// Due is when the engine must be polled after a Meet: at once if that has left something to send.
func (s *Straight) Due() clock.Time {
	if !s.e.rel.Idle() {
		return s.e.now
	}
	return clock.Never
}
