package nic

import (
	"container/heap"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/vni"
)

// A program may guard what a process sends. It judges each message, datagram and PUT of the
// process, and each message to a program, once before it leaves. It can delay or drop it.
//
//	first of its line ─► unjudged ─ poll ─► guard ─┬─ passes ────────────────────► sets off: turns
//	                                               ├─ passes later ─► delayed ──►─┘ at its time
//	                                               └─ drops ──────► ended: StatusRefused
//
// A message is judged when it is the first to its receiver, and later messages to that receiver
// wait behind it. So a delay keeps the order of the messages to one receiver, and holds up no
// other receiver and no other process. A waiting message is a command of the process in one of its
// contexts, so the contexts bound the memory.
//
// The straight way, runs and relays send several messages at once, or without a command. A guarded
// process may use none of them: each of its messages is a separate command, and each copy of a
// multicast is judged.
type departures struct {
	unjudged list[send]
	delayed  delayed
	// Numbers the delayed sends: two with the same time leave in the order of their verdicts.
	sequence uint64
	seen     program.Departure // what the guard looks at, kept here so that no call allocates
}

// departure holds the data of a send that waits to leave.
type departure struct {
	to       program.Departure // of a datagram or a message to a program: its destination
	gen      uint32            // of a datagram's receiver
	slot     uint16            // of a datagram's receiver
	accept   bool              // of a message to a program: its process wants the outcome
	at       clock.Time        // when it leaves, if it is delayed
	sequence uint64
	place    int // in delayed, from 1; 0: not there
}

// depart handles a send that is the first of its line. It leaves, unless a guard has to judge it
// first.
func (e *Engine) depart(s *send) {
	if s.p.guardOut == nil || s.kind == kindGet {
		e.setOff(s)
		return
	}
	s.wait(sendUnjudged, &e.expiry.departures.unjudged)
}

// setOff lets a send leave: nothing in this NIC holds it back.
func (e *Engine) setOff(s *send) {
	switch s.kind {
	case kindDatagram:
		d := &s.departs
		e.completeSend(s, e.sendLetter(s, vni.Address{NIC: d.to.NIC, Slot: d.slot, Gen: d.gen}))
	case kindProgram:
		s.wait(sendPosted, nil)
		e.commandProgram(s)
	default:
		e.ready(s)
	}
}

// judgeDepartures lets the guards judge some of the unjudged sends and returns their number. The
// rest wait for the next poll.
func (e *Engine) judgeDepartures() (judged int) {
	for q := &e.expiry.departures; q.unjudged.n > 0 && judged < limits.DeparturesPerPoll; judged++ {
		s := q.unjudged.front()
		s.node.remove()
		e.judgeDeparture(s)
	}
	return judged
}

// judgeDeparture lets the guard judge one send.
func (e *Engine) judgeDeparture(s *send) {
	p := s.p
	switch {
	case p.guardOut == nil: // the guard was unloaded
		e.setOff(s)
		return
	case s.kind == kindRun: // its process sends each of the messages by itself
		e.completeSend(s, vni.StatusOK)
		return
	}
	e.expiry.departures.seen = e.departureOf(s)
	delay, pass := p.guardOut(&e.expiry.departures.seen)
	if !pass {
		e.counts[vni.NICSendsRefused]++
		e.completeSend(s, vni.StatusRefused)
		return
	}
	at := e.now
	if delay > 0 {
		e.counts[vni.NICSendsDelayed]++
		at = forPrograms{(*services)(e)}.Clock().Add(delay)
	}
	if last := p.departed(s.kind); last != nil { // no line keeps these in order
		at = clock.Time(max(at, *last))
		*last = at
	}
	if at <= e.now {
		e.setOff(s)
		return
	}
	e.delay(s, at)
}

// departureOf describes a send to its guard.
func (e *Engine) departureOf(s *send) (d program.Departure) {
	switch s.kind {
	case kindDatagram, kindProgram:
		d = s.departs.to
	case kindPut:
		d.Kind = program.DepartsPut
		fallthrough
	default:
		d.NIC, d.Number, d.Tag = s.dest.key.NIC, program.ProcessNumber(s.dest.key.Slot, s.dest.key.Gen), s.env.Tag
	}
	d.Bytes = s.frag.Length
	return d
}

// departed returns where the departure time of the process's last send of a kind is kept, for
// kinds whose order no line keeps; nil for other kinds.
func (p *process) departed(k sendKind) *clock.Time {
	switch k {
	case kindDatagram:
		return &p.lastLetter
	case kindProgram:
		return &p.lastProgram
	}
	return nil
}

// delay keeps a send until its time.
func (e *Engine) delay(s *send, at clock.Time) {
	q := &e.expiry.departures
	q.sequence++
	s.wait(sendDelayed, nil)
	s.departs.at, s.departs.sequence = at, q.sequence
	heap.Push(&q.delayed, s)
	e.expiry.at(at)
}

// endDelays lets the delayed sends leave whose time has come.
func (e *Engine) endDelays() {
	for q := &e.expiry.departures; len(q.delayed) > 0; {
		s := q.delayed[0]
		if s.departs.at > e.now {
			e.expiry.at(s.departs.at)
			return
		}
		q.drop(s)
		e.setOff(s)
	}
}

// drop removes a send from the delayed ones.
func (q *departures) drop(s *send) {
	if s.departs.place > 0 {
		heap.Remove(&q.delayed, s.departs.place-1)
	}
}

// delayed is a heap of sends, ordered by departure time (container/heap).
type delayed []*send

func (h delayed) Len() int { return len(h) }

func (h delayed) Less(i, j int) bool {
	a, b := &h[i].departs, &h[j].departs
	return a.at < b.at || a.at == b.at && a.sequence < b.sequence
}

func (h delayed) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].departs.place, h[j].departs.place = i+1, j+1
}

// Push implements heap.Interface.
func (h *delayed) Push(s any) {
	*h = append(*h, s.(*send))
	s.(*send).departs.place = len(*h)
}

// Pop implements heap.Interface.
func (h *delayed) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	s.departs.place = 0
	return s
}

// outgoingGuard is the guard of what a process sends, and the users whose processes it may judge.
type outgoingGuard struct {
	judge func(*program.Departure) (time.Duration, bool)
	of    program.Whose
}

// GuardOutgoing lets a program judge what the process with a name sends, if the process belongs to
// one of the users in of. This holds for the present process and for later ones of that name. A
// nil f ends the guard. Sends that it has already delayed still leave at their time.
func (h forPrograms) GuardOutgoing(name vni.Name, f program.OutgoingFunc, of program.Whose) {
	e := h.engine()
	if f == nil {
		delete(e.procs.outgoing, name)
	} else {
		if e.procs.outgoing == nil {
			e.procs.outgoing = make(map[vni.Name]outgoingGuard)
		}
		e.procs.outgoing[name] = outgoingGuard{f, of}
	}
	for p := range e.procs.all {
		if p.name == name && p.slot != 0 {
			e.procs.guardOutgoing(p)
		}
	}
}

// guardOutgoing gives a process its guard, if it has one.
func (t *processTable) guardOutgoing(p *process) {
	p.guardOut = nil
	if g, ok := t.outgoing[p.name]; ok && g.of.Covers(p.user) {
		p.guardOut = g.judge
	}
}
