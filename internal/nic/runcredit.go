package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// When many messages to one process have used up its credit, they wait a short time for more
// before the next of them asks for permission. A request costs more than these messages do, at
// both ends: a message that comes by permission is not whole when it is matched, and ends the
// batch of an Inbox. A caller of the straight way waits itself, with polls in between (direct.go).
// A run of a command waits here.
//
//	runTurn ── no credit ─► expiry.short ── credit comes ────► ready
//	                                     └─ limits.RoomWait ─► ends with those that left;
//	                                                           inVain until one leaves

// soon reports whether a message of n bytes that cannot leave can do so once its receiver gives
// credit, or the link has room. A message too long for a frame, or too long to be copied into a
// segment, asks for permission at once: its length justifies the cost. And if no credit is used
// up, none comes back: it has to be asked for.
func (d *dest) soon(e *Engine, n int) bool {
	if rm := d.remote; n > limits.StagedMessage || rm.waiting.n > 0 || rm.admitted != nil || rm.granted == rm.returned {
		return false
	}
	if e.cfg.Defect == mutate.RoomAwaitedInVain {
		return true
	}
	return (d.peer.ep.Reliable() || n <= limits.CopiedMessage) &&
		wire.FragLen+n <= d.peer.ep.MaxRecord(wire.SpaceFor(n))
}

// awaitRoom parks a run, whose next message has n bytes, until there is credit. It returns false
// if the wait is not worthwhile.
func (e *Engine) awaitRoom(s *send, n int) bool {
	if s.dest.inVain || !s.dest.soon(e, n) {
		return false
	}
	s.wait(sendRoom, &e.expiry.short)
	s.run.until = e.now.Add(limits.RoomWait)
	e.expiry.at(s.run.until)
	e.ways[WayRunAwaited]++
	return true
}

// roomCame lets the runs take their turns that wait for the credit of a process that has just
// given some.
func (e *Engine) roomCame(rm *remote) {
	if e.cfg.Defect == mutate.RunDeaf {
		return
	}
	for s := range e.expiry.short.all {
		if s.dest.remote == rm {
			e.ready(s)
		}
	}
}

// endAwaited ends the runs that have waited long enough.
func (e *Engine) endAwaited() {
	for s := range over(&e.expiry, &e.expiry.short, e.now, func(s *send) clock.Time { return s.run.until }) {
		s.dest.inVain = true
		e.completeSend(s, vni.StatusOK)
	}
}

// auditRuns checks that no run waits for credit that is there, or beyond its time.
func (e *Engine) auditRuns() error {
	for s := range e.expiry.short.all {
		first := s.run.lengths.At(s.run.sent)
		switch rm := s.dest.remote; {
		case e.expiry.next > s.run.until:
			return fmt.Errorf("%v: a run waits for credit until %d, and nothing is looked at before %d", s.p,
				s.run.until, e.expiry.next)
		case rm.waiting.n == 0 && rm.admitted == nil && rm.credit() >= stagedCosts(1, first):
			return fmt.Errorf("%v: a run waits for credit for %d bytes, and there are %d", s.p, first, rm.credit())
		}
	}
	return nil
}
