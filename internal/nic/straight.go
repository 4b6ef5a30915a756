package nic

import (
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Straight is the straight way of one process into the engine (USNIC-28, USNIC-38; vni.Straight says what it is). It
// goes where a command would go, by the same tables and with the same judgement, or not at all: it refuses whatever would
// have to wait. So order, credit, accounts and the peer's view are those of the command queue.
//
// It belongs to the goroutine that has the engine, as Poll does.
type Straight struct {
	e       *Engine
	p       *process
	clock   func() clock.Time
	ep      *rel.Endpoint // of the Send that is open,
	as      rel.As        // which leaves so
	closing bool
	idle    atomic.Bool          // closing, and every receive is finished
	awaited awaited              // what Meet takes
	answer  *vni.StraightReceive // if it is a call: takes the reply
	call    leftCall             // and what the reply's receive is to know of it
	kept    *keptSend            // the Send that is open, if it is one of several frames
}

// Straight returns the straight way of the process at slot; nil if there is no such process. now is read where the time since
// the last Poll may matter, and no more often, since that takes a tenth of the whole way.
func (e *Engine) Straight(slot uint16, gen uint32, now func() clock.Time) *Straight {
	e.begin()
	p := e.process(slot)
	if p == nil || p.gen != gen {
		return nil
	}
	if p.straight == nil {
		p.straight = &Straight{e: e, p: p, clock: now}
	}
	return p.straight
}

// Behind reports whether commands stand before whatever comes now, so that a poll may make it possible.
func (s *Straight) Behind() bool { return s.p.vni.Pending() && s.p.served() && !s.closing }

// usable reports whether the process is served and no command of its stands before what comes now.
func (s *Straight) usable() bool {
	first := !s.p.vni.Pending() || s.e.cfg.Defect == mutate.StraightOvertakes
	return first && !s.closing && !s.e.closed && s.p.served()
}

// ready is usable, where it may matter what has been met before.
func (s *Straight) ready() bool {
	s.e.begin()
	return s.usable()
}

// Send returns room for the payload of a message that may leave now: its receiver is known and the pair open, nothing to
// the same receiver waits, there is credit, and it fits into a segment, or into a frame of a link that needs none kept, or is copied to be sent in
// several (kept.go). Otherwise nil. Sent must follow.
func (s *Straight) Send(m *vni.StraightSend) []byte {
	d := s.mayLeave(m, m.Len)
	if d == nil || m.Reply && s.p.givenUp > 0 && s.e.callerGaveUp(s.p, d, m.Tag) { // the command says so
		return nil
	}
	ways := rel.AsPart
	switch {
	case m.Len > limits.CopiedMessage: // the segment's copy would cost more than to wait does
		ways = rel.AsFrame
	case !m.Hold && wire.SpaceFor(m.Len) == wire.Command:
		ways |= rel.AsFrame | rel.AsSingle
	case !m.Hold:
		ways |= rel.AsFrame
	}
	b := s.begin(d, wire.SpaceFor(m.Len), wire.FragLen+m.Len, ways)
	if b == nil {
		if m.Hold { // its caller goes on as it is, and its memory is free in time: a copy would cost more than it brings
			return nil
		}
		return s.keep(m, d, WayKept)
	}
	env := d.envelope(s.p, d.leave(1, stagedCost(uint64(m.Len))), m.Tag)
	if m.Token != 0 || m.Reply {
		s.called(m, d, &env)
	}
	wire.PutFrag(b, &env, m.Len)
	s.e.countLeft(s.p, wayOf[s.as], 1, uint64(m.Len))
	return b[wire.FragLen:]
}

// called puts into the envelope of a call, or of a reply, what says so.
func (s *Straight) called(m *vni.StraightSend, d *dest, env *wire.Envelope) {
	if m.Reply {
		env.Flags = wire.FlagReply
		s.e.counts[vni.NICReplies]++
		return
	}
	env.Token, s.answer = m.Token, m.Answer
	s.call = leftCall{d, env.Number, stagedCost(uint64(m.Len))}
	s.e.counts[vni.NICCalls]++
}

// begin is room for a record of n bytes to d in one of several ways, nil if it has to wait; end must follow.
func (s *Straight) begin(d *dest, space wire.Space, n int, ways rel.As) (b []byte) {
	s.ep = d.peer.ep
	b, s.as = s.ep.Begin(space, n, ways, &s.p.rooms, s.e.out)
	return b
}

// end ends what begin has begun, and returns when rel must be polled at the latest. What is in a segment stays there if hold.
func (s *Straight) end(hold bool) (next clock.Time) {
	if s.kept != nil {
		return s.endKept(hold)
	}
	s.e.now, next = s.ep.End(s.e.now, s.clock, hold, s.e.out)
	return next
}

// mayLeave finds the destination of a message if one of n bytes may leave now; nil if it may not.
func (s *Straight) mayLeave(m *vni.StraightSend, n int) *dest {
	if n > limits.StagedMessage || !s.ready() || s.p.guardOut != nil { // a guard judges commands
		return nil
	}
	if d := s.dest(m); d != nil && d.open(n) {
		return d
	}
	return nil
}

// readClock brings the engine's time up to date: the last Poll may be long ago.
func (s *Straight) readClock() { s.e.now = max(s.e.now, s.clock()) }

// dest finds the destination of a message; nil if a command has to find out.
func (s *Straight) dest(m *vni.StraightSend) *dest {
	if m.NIC == 0 {
		return s.named(&m.To, m.Gen)
	}
	return s.p.destAt(vni.Address{NIC: m.NIC, Slot: m.Slot, Gen: m.Gen})
}

// named finds a process by its name, and by its generation unless that is 0.
func (s *Straight) named(to *vni.Name, gen uint32) *dest {
	if s.e.names.Changed() && s.e.waiting.n > 0 { // for a name that the tables have just brought, perhaps this one
		return nil
	}
	n := s.e.names.Find(to)
	if n == nil || !n.Live() || gen != 0 && gen != n.Gen {
		return nil
	}
	return s.p.destAt(n.Address)
}

// Sent lets the message of Send leave at once, with all that was held before it, and returns when the engine must be polled
// at the latest.
func (s *Straight) Sent() (next clock.Time) {
	e := s.e
	next = s.end(false)
	if w := s.answer; w != nil { // the call is on its way, and no frame is taken in before the caller has let the engine go
		s.answer = nil
		e.ways[WayCalled]++
		if r := s.enter(w); r.wanted == w { // else it has ended already
			r.call = s.call
		}
		next = clock.Min(next, s.lookAgain())
	}
	if s.as == rel.AsFrame { // on a link that needs no timers
		return next
	}
	e.holding.end()
	if e.unfinished() { // it has made room for others
		return e.now
	}
	return next
}

// Hold leaves the message of Send to the next Sent or Poll, and reports whether there are as many by now as are worth
// a frame of their own, so that it is time for Sent.
func (s *Straight) Hold() (enough bool) {
	s.end(true)
	return s.as == rel.AsPart && s.hold(1)
}

// Flush has the datagrams leave that wait for the next poll, and reports whether nothing else does.
func (s *Straight) Flush() (all bool) {
	e := s.e
	e.begin()
	if e.closed {
		return true
	}
	s.readClock()
	e.rel.SendDatagrams(e.now, e.out)
	return e.holding.n == 0 && !s.Behind() && !e.unfinished() && e.rel.Idle()
}

// hold counts so many messages more that wait in segments.
func (s *Straight) hold(n int) (enough bool) {
	h := &s.e.holding
	h.n, h.at = h.n+n, s.e.now
	if s.ep.Reliable() {
		return h.n >= limits.HeldMessages/4
	}
	return h.n >= limits.HeldMessages
}

// holding is the messages that wait in open segments until there are more of them.
type holding struct {
	n  int
	at clock.Time // when the last one began to; 0: none has
}

// heldLong is for how long after a message was held the engine wants to be looked at often: a caller that holds one holds more.
const heldLong = 2 * time.Millisecond

// end notes that all that were held leave now, and returns how many they are.
func (h *holding) end() (held int) {
	held, h.n = h.n, 0
	return held
}

// recent reports whether messages are held, or were a short time ago.
func (h *holding) recent(now clock.Time) bool {
	return h.n > 0 || h.at != 0 && now.Sub(h.at) < heldLong
}

// Receive posts a receive, as a command would (QNIX-45), and returns when the engine must be polled at the latest. ok is
// false if it cannot now.
func (s *Straight) Receive(w *vni.StraightReceive) (next clock.Time, ok bool) {
	if !s.ready() {
		return clock.Never, false
	}
	s.enter(w)
	if e := s.e; e.unfinished() || e.grants.waiting.n > 0 || !e.rel.Idle() {
		return e.now, true
	}
	return s.lookAgain(), true
}

// lookAgain is when the engine must be polled though nothing comes for a receive: its sender may have gone, or be silent.
func (s *Straight) lookAgain() clock.Time {
	e := s.e
	return clock.Min(e.expiry.next, e.now.Add(e.cfg.ProbeEvery))
}

// enter posts a receive. Its entry may be another's when it returns, if it has ended already.
func (s *Straight) enter(w *vni.StraightReceive) *receive {
	e, p := s.e, s.p
	r := p.takeStraight()
	w.Begin()
	w.Entry, r.wanted = r, w
	r.notify, r.reply, r.tags = false, w.Takes == vni.TakesReply, vni.TagsOf(w.Tag, w.AnyTag)
	r.sender, r.size = w.From, uint64(len(w.Buf))
	r.exact, r.from = w.NIC != 0, vni.Address{NIC: w.NIC, Slot: w.Slot, Gen: w.Gen}
	r.parts = r.space[:0]
	if len(w.Buf) > 0 {
		r.parts = append(r.parts, w.Buf)
	}
	e.counts[vni.NICStraightReceives]++
	if w.Takes == vni.TakesDatagram {
		if len(w.Rest) > 0 {
			r.parts = append(r.parts, w.Rest)
			r.size += uint64(len(w.Rest))
		}
		e.postDatagram(r)
		return r
	}
	if p.stray.n+p.unstaged.n > 0 { // it may meet one, and much may follow from that
		s.readClock()
	}
	e.enterReceive(r)
	return r
}

// Cancel withdraws a receive, at most once for each time that it was posted.
func (s *Straight) Cancel(now clock.Time, w *vni.StraightReceive) {
	r, ok := w.Entry.(*receive)
	if !ok || r.wanted != w {
		return
	}
	s.e.beginAt(now)
	s.e.counts[vni.NICCancels]++
	s.e.cancelReceive(r)
}

// Close refuses everything from now on, and withdraws what is posted.
func (s *Straight) Close(now clock.Time) {
	s.e.beginAt(now)
	s.closing = true
	for _, r := range s.p.straights {
		if r.wanted != nil {
			s.Cancel(now, r.wanted)
		}
	}
	s.idle.Store(s.p.spareStraights.InUse() == 0)
}

// Idle reports, after Close, whether no receive is posted or on its way any more. It may be asked at any time, by any goroutine.
func (s *Straight) Idle() bool { return s.idle.Load() }

// finishStraight tells a process of the end of a receive. One that is served no more hears nothing: its memory says so.
func (e *Engine) finishStraight(r *receive, c *vni.Completion) {
	p, w := r.p, r.wanted
	r.wanted, w.Entry = nil, nil
	p.spareStraights.Give(r)
	if s := p.straight; s.closing && p.spareStraights.InUse() == 0 {
		s.idle.Store(true)
	}
	if !p.served() {
		return
	}
	p.ended(c.Status)
	if c != &w.Result { // where completeReceive has put it
		w.Result = *c
	}
	e.early.served = e.early.served || w.Takes != vni.TakesDatagram
	w.Finish() // it is the process's again
	if p.wakeUp != nil {
		e.ring(p)
	}
}

// takeStraight takes an entry of the receive table for a receive that has no context.
func (p *process) takeStraight() *receive {
	r := p.spareStraights.Take()
	if r.p == nil {
		r.init(p, -1)
		p.straights = append(p.straights, r)
	}
	return r
}

// receives are all entries of the receive table that may be in use: those of the contexts, and the straight ones.
func (p *process) receives(yield func(*receive) bool) {
	for i := range p.recvs {
		if !yield(&p.recvs[i]) {
			return
		}
	}
	for _, r := range p.straights {
		if !yield(r) {
			return
		}
	}
}
