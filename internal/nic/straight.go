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

// Straight is the straight way of one process into the engine (USNIC-28, USNIC-38; vni.Straight
// describes it). A call does what a command would do, with the same tables and the same checks, or
// nothing: it refuses everything that would have to wait. So order, credit, accounts and the
// peer's view are those of the command queue.
//
// It belongs to the goroutine that has the engine, as Poll does.
type Straight struct {
	e       *Engine
	p       *process
	clock   func() clock.Time
	ep      *rel.Endpoint // of the open Send
	as      rel.As        // how the open Send leaves
	closing bool
	idle    atomic.Bool          // closing, and every receive is finished
	awaited awaited              // the message that Meet takes
	answer  *vni.StraightReceive // of the open Send if it is a call: takes the reply
	call    leftCall             // what the receive of the reply must know of the call
	kept    *keptSend            // the open Send, if it has several frames
}

// Straight returns the straight way of the process at slot, or nil if there is no such process.
// now is read only if the time since the last Poll may matter, since a read takes a tenth of the
// whole way.
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

// Behind reports whether commands wait before the next call, so that a poll may make the call
// possible.
func (s *Straight) Behind() bool { return s.p.vni.Pending() && s.p.served() && !s.closing }

// usable reports whether the process is served and none of its commands waits before the next
// call.
func (s *Straight) usable() bool {
	first := !s.p.vni.Pending() || s.e.cfg.Defect == mutate.StraightOvertakes
	return first && !s.closing && !s.e.closed && s.p.served()
}

// ready is usable, for calls to which a message that was met before may matter.
func (s *Straight) ready() bool {
	s.e.begin()
	return s.usable()
}

// Send returns room for the payload of a message that may leave now. Its receiver must be known,
// the pair open, no message to the same receiver waiting, and there must be credit. The message
// fits a segment, or a frame of a link that needs none kept, or is copied to be sent in several
// frames (kept.go). Otherwise Send returns nil. Sent must follow.
func (s *Straight) Send(m *vni.StraightSend) []byte {
	d := s.mayLeave(m, m.Len)
	// The command reports it.
	if d == nil || m.Reply && s.p.givenUp > 0 && s.e.callerGaveUp(s.p, d, m.Tag) {
		return nil
	}
	ways := rel.AsPart
	switch {
	case m.Len > limits.CopiedMessage: // the copy into a segment would cost more than the wait
		ways = rel.AsFrame
	case !m.Hold && wire.SpaceFor(m.Len) == wire.Command:
		ways |= rel.AsFrame | rel.AsSingle
	case !m.Hold:
		ways |= rel.AsFrame
	}
	b := s.begin(d, wire.SpaceFor(m.Len), wire.FragLen+m.Len, ways)
	if b == nil {
		// Its caller does not wait, and its memory is free in time: a copy would cost more than it
		// saves.
		if m.Hold {
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

// called marks the envelope of a call, or of a reply, as such.
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

// begin returns room for a record of n bytes to d in one of several ways, or nil if it has to
// wait. end must follow.
func (s *Straight) begin(d *dest, space wire.Space, n int, ways rel.As) (b []byte) {
	s.ep = d.peer.ep
	b, s.as = s.ep.Begin(space, n, ways, &s.p.rooms, s.e.out)
	return b
}

// end ends what begin has begun. It returns the latest time of rel's next poll. If hold, data in a
// segment stays there.
func (s *Straight) end(hold bool) (next clock.Time) {
	if s.kept != nil {
		return s.endKept(hold)
	}
	s.e.now, next = s.ep.End(s.e.now, s.clock, hold, s.e.out)
	return next
}

// mayLeave returns the destination of a message if one of n bytes may leave now, else nil.
func (s *Straight) mayLeave(m *vni.StraightSend, n int) *dest {
	if n > limits.StagedMessage || !s.ready() || s.p.guardOut != nil { // a guard judges commands
		return nil
	}
	if d := s.dest(m); d != nil && d.open(n) {
		return d
	}
	return nil
}

// readClock updates the engine's time: the last Poll may be long ago.
func (s *Straight) readClock() { s.e.now = max(s.e.now, s.clock()) }

// dest returns the destination of a message, or nil if a command has to find it.
func (s *Straight) dest(m *vni.StraightSend) *dest {
	if m.NIC == 0 {
		return s.named(&m.To, m.Gen)
	}
	return s.p.destAt(vni.Address{NIC: m.NIC, Slot: m.Slot, Gen: m.Gen})
}

// named returns the destination of a process by its name, and by its generation unless that is 0.
func (s *Straight) named(to *vni.Name, gen uint32) *dest {
	// Sends wait for a name that the tables have just brought, perhaps this one.
	if s.e.names.Changed() && s.e.waiting.n > 0 {
		return nil
	}
	n := s.e.names.Find(to)
	if n == nil || !n.Live() || gen != 0 && gen != n.Gen {
		return nil
	}
	return s.p.destAt(n.Address)
}

// Sent lets the message of Send leave at once, with all messages that were held before it. It
// returns the latest time of the next poll.
func (s *Straight) Sent() (next clock.Time) {
	e := s.e
	next = s.end(false)
	// The call is on its way, and no frame is taken in before the caller has given the engine
	// back.
	if w := s.answer; w != nil {
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

// Hold leaves the message of Send to the next Sent or Poll. It reports whether enough messages are
// held to be worth a frame of their own, so that it is time for Sent.
func (s *Straight) Hold() (enough bool) {
	s.end(true)
	return s.as == rel.AsPart && s.hold(1)
}

// Flush sends the datagrams that wait for the next poll. It reports whether nothing else waits for
// it.
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

// hold counts n more messages that wait in segments. It reports whether that is enough.
func (s *Straight) hold(n int) (enough bool) {
	h := &s.e.holding
	h.n, h.at = h.n+n, s.e.now
	if s.ep.Reliable() {
		return h.n >= limits.HeldMessages/4
	}
	return h.n >= limits.HeldMessages
}

// holding counts the messages that wait in open segments until there are more of them.
type holding struct {
	n  int
	at clock.Time // when the last message was held; 0: never
}

// heldLong is for how long after a message was held the engine must be polled often: a caller that
// holds one message holds more.
const heldLong = 2 * time.Millisecond

// end notes that all held messages leave now. It returns their number.
func (h *holding) end() (held int) {
	held, h.n = h.n, 0
	return held
}

// recent reports whether messages are held, or were a short time ago.
func (h *holding) recent(now clock.Time) bool {
	return h.n > 0 || h.at != 0 && now.Sub(h.at) < heldLong
}

// Receive posts a receive, as a command would (QNIX-45). It returns the latest time of the next
// poll. ok is false if the receive cannot be posted now.
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

// lookAgain returns when the engine must be polled even if nothing arrives for a receive: its
// sender may have gone, or be silent.
func (s *Straight) lookAgain() clock.Time {
	e := s.e
	return clock.Min(e.expiry.next, e.now.Add(e.cfg.ProbeEvery))
}

// enter posts a receive. If the receive has already ended when enter returns, its entry may be in
// other use.
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
	// It may meet one of these messages, which can cause much other work.
	if p.stray.n+p.unstaged.n > 0 {
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

// Close makes all later calls fail, and withdraws the posted receives.
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

// Idle reports, after Close, whether no receive is posted or about to finish. Any goroutine may
// call it at any time.
func (s *Straight) Idle() bool { return s.idle.Load() }

// finishStraight tells a process of the end of a receive. A process that is no longer served is
// not told: its memory says so.
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
	if c != &w.Result { // completeReceive has written it there
		w.Result = *c
	}
	e.early.served = e.early.served || w.Takes != vni.TakesDatagram
	w.Finish() // the receive is the process's again
	if p.wakeUp != nil {
		e.ring(p)
	}
}

// takeStraight returns an entry of the receive table for a receive without a context.
func (p *process) takeStraight() *receive {
	r := p.spareStraights.Take()
	if r.p == nil {
		r.init(p, -1)
		p.straights = append(p.straights, r)
	}
	return r
}

// receives visits all entries of the receive table that may be in use: those of the contexts, and
// the straight ones.
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
