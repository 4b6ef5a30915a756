package rel

import (
	"math"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/secret"
)

// A path may become narrower than the frames that it has carried: a black hole, which swallows
// the long ones and lets the short ones through. Timeouts alone would show it, but each lasts
// twice as long as the one before, and each length that is still too long adds another. So
// timeouts only throw doubt on a length, soon. Probes decide, at the pace of round trips and on
// all lengths at once:
//
//	       a long segment is lost twice          the longest is answered
//	  size ───────────────────────────► in doubt ──────────────────────► size, the loss was a loss
//	       tries: small, SureFrame, size  │
//	                                      │ PathTries times the small one is answered,
//	                                      │ and the longest is not
//	                                      ▼
//	                                 SureFrame if that was answered, LeastFrame else;
//	                                 then the search goes up again
//
// A peer that did not answer long frames gives no reason to be slow with shorter ones: when a
// segment's length changes, its timeout begins anew, and the oldest segment is retransmitted at
// once.

// doubted reports whether probes are asking if frames of size bytes still get through.
func (p *path) doubted() bool { return p.trying == p.size && p.trying > 0 }

// least returns the frame length that every path carries.
func (e *Endpoint) least() int {
	if e.m.cfg.Defect == mutate.SureBelieved {
		return limits.SureFrame
	}
	return limits.LeastFrame
}

// pathLoses notes that a segment is given up for lost. It throws doubt on the frame length if the
// segment is lost for the second time, or if timeouts have passed without progress, and if no
// segment as long has arrived meanwhile.
func (m *Module) pathLoses(s *session, g *segment) {
	p, e := &s.path, s.endpoint
	if p.limit == math.MaxInt || g.cost <= limits.LeastFrame+limits.FrameCost || g.counter <= p.from ||
		m.cfg.Defect == mutate.BlackHole {
		return
	}
	cost := min(g.cost, p.limit) // of the longest frame that it went in
	if p.lost++; p.lost == 1 || cost > p.suspect {
		p.suspect = cost
	}
	if p.lost < limits.SizeDoubt || max(int(g.sends), int(s.rtt.backoff)) < limits.SizeDoubt ||
		p.size <= e.least() || p.doubted() {
		return
	}
	p.resume = p.trying
	// An answer to an earlier question says nothing about now.
	p.id, p.sent = m.cfg.Secrets.Uint64(secret.Probe), 0
	e.try(s, p.size)
}

// trust forgets the losses: a frame as long as the lost ones has arrived.
func (p *path) trust() { p.lost, p.suspect = 0, math.MaxInt }

// holdsAfterAll ends a doubt: frames of this length do get through.
func (e *Endpoint) holdsAfterAll(s *session) {
	p := &s.path
	p.proven = true
	p.trust()
	if p.trying = 0; p.resume > 0 {
		e.try(s, p.resume)
	}
}

// goesDown ends a doubt: frames of this length no longer get through.
func (e *Endpoint) goesDown(now clock.Time, s *session) {
	if p := &s.path; p.holds {
		e.narrower(now, s, p.below)
	} else {
		e.narrower(now, s, e.least())
	}
	e.search(s)
}

// narrower shortens the session's frames to n bytes, a length that surely gets through.
func (e *Endpoint) narrower(now clock.Time, s *session, n int) {
	e.m.stats.PathDoubts++
	e.holdTo(s, n)
	s.path.proven = true
	s.path.trust()
	s.recovery.progress(now, s)
	if g := s.flight.head; g != nil {
		e.m.resend(now, s, e.m.first(s, g), CausePath)
	}
}
