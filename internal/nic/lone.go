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

// Most calls have nothing else in flight: a question, its answer, the next question. For them the
// straight way is shorter still. Post writes the frame of a message in one step, if the link
// supports that. On links that implement Peek, as shared memory and AF_XDP do, the receiving
// goroutine inspects the next frame itself:
//
//	Expect: no receive is posted, no message is unexpected, and the last sender is known
//	   │ a frame comes
//	   ▼
//	Meet: it is that message ──► copied to the caller's memory; it was never posted or queued
//	   │ it is anything else
//	   ▼
//	Receive, and a Poll, as usual
//
// The caller has the engine from Expect to the end of Meet, so that nothing changes in between.
// Credit, order, accounts and counts are those of Send and Receive. A met message is accounted for
// a little later, while the answer is on its way: by the next call that uses the engine, except
// Post, which needs no such account.

// awaited describes the frame that a Straight expects from the link.
type awaited struct {
	src  *source
	ep   *rel.Endpoint // of its NIC
	from link.Addr
	head wire.Lone // head of frames between src and the process
	tags vni.Tags
}

// met is a message that has been taken out of the link and given to its receiver, but is not
// accounted for yet.
type met struct {
	src   *source // nil: none
	frame int     // bytes of its frame, which the link still has
	bytes uint64
	cost  uint64 // credit
}

// Post sends a message in one step, if it can leave at once, in a frame by itself. It returns the
// latest time of the next poll.
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

// postKept is Post over a link that may lose the message: the message is kept after it has left.
func (s *Straight) postKept(d *dest, payload []byte) (next clock.Time, ok bool) {
	b := s.begin(d, wire.Command, wire.FragLen+len(payload), rel.AsSingle)
	if b == nil {
		return clock.Never, false
	}
	d.lone.PutFrag(b)
	copy(b[wire.FragLen:], payload)
	return s.Sent(), true
}

// Expect prepares for the next message of the last sender. It returns true if a receive with this
// from and tag would be the first of all posted ones, and would find no message that has already
// arrived. Meet may follow, as long as the engine is not used for anything else.
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

// Meet takes the expected message into buf, if it is the next frame of the link, whole, and fits.
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
	if !x.tags.Take(tag) && e.cfg.Defect != mutate.MetAnyTag ||
		len(payload) > len(buf) && e.cfg.Defect != mutate.MetCutShort || !src.credit.covers(cost) {
		return vni.Met{}
	}
	e.now = max(e.now, now)
	x.ep.Take(e.now)
	copy(buf, payload)
	e.counts[vni.NICCopiedIn] += n
	src.expected++
	// Field by field: a whole struct is built elsewhere, and copied by longer words than it was
	// written by.
	w := &e.met
	w.src, w.frame, w.bytes, w.cost = src, len(frame), n, cost
	if e.tellsCredit(src, cost) { // then there is something to send, and Due says so
		e.begin()
	}
	return vni.Met{From: src.whole(), Tag: tag, Len: len(payload)}
}

// begin is the door of the engine: every call from outside passes it before it touches anything,
// so that it overtakes no deferred work. A test checks that.
func (e *Engine) begin() {
	if e.met.src != nil {
		e.account()
	}
}

// beginAt is begin at a time. That time may lag the engine's own, which a direct send may have
// advanced. beginAt returns the later one.
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

// Due returns when the engine must be polled after a Meet: at once if the Meet has left something
// to send.
func (s *Straight) Due() clock.Time {
	if !s.e.rel.Idle() {
		return s.e.now
	}
	return clock.Never
}
