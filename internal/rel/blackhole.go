package rel

import (
	"math"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/secret"
)

// A path may become narrower than the frames that it has carried: a black hole, which swallows the long ones and lets the
// short ones through. Time-outs alone would tell, each twice as long as the one before, and once more for each length that is too long
// still. So they only throw doubt on a length, soon, and probes decide, at the pace of round trips and on all lengths at once:
//
//	         a long segment is lost for the second time            the longest is answered
//	  size ──────────────────────────────────────────► in doubt ──────────────────────────────► size, the loss was a loss
//	                                                       │
//	                                                       │ PathTries times the small one is answered, and the longest is not
//	                                                       ▼
//	                  tries: small, SureFrame, size    SureFrame if that was answered, LeastFrame else; then the search goes up again
//
// That a peer did not answer to long frames is no reason to be slow with shorter ones: with its length a segment's time-out begins anew,
// and the oldest goes again at once.

// doubted reports whether it is asked whether frames of size bytes still get through.
func (p *path) doubted() bool { return p.trying == p.size && p.trying > 0 }

// least is what every path carries.
func (e *Endpoint) least() int {
	if e.m.cfg.Defect == mutate.SureBelieved {
		return limits.SureFrame
	}
	return limits.LeastFrame
}

// pathLoses notes that a segment is given up for lost. If the same is so for the second time, or time-outs have passed without
// anything new, and none that is as long has arrived meanwhile, it may be that they no longer can.
func (m *Module) pathLoses(s *session, g *segment) {
	p, e := &s.path, s.endpoint
	if p.limit == math.MaxInt || g.cost <= limits.LeastFrame+limits.FrameCost || g.counter <= p.from || m.cfg.Defect == mutate.BlackHole {
		return
	}
	cost := min(g.cost, p.limit) // of the longest frame that it went in
	if p.lost++; p.lost == 1 || cost > p.suspect {
		p.suspect = cost
	}
	if p.lost < limits.SizeDoubt || max(int(g.sends), int(s.rtt.backoff)) < limits.SizeDoubt || p.size <= e.least() || p.doubted() {
		return
	}
	p.resume = p.trying
	p.id, p.sent = m.cfg.Secrets.Uint64(secret.Probe), 0 // an answer to what was asked before says nothing of now
	e.try(s, p.size)
}

// trust forgets what was lost: a frame as long as any of it has come.
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

// goesDown ends a doubt: frames of this length get through no more.
func (e *Endpoint) goesDown(now clock.Time, s *session) {
	if p := &s.path; p.holds {
		e.narrower(now, s, p.below)
	} else {
		e.narrower(now, s, e.least())
	}
	e.search(s)
}

// narrower has frames be shorter, of n bytes that surely get through.
func (e *Endpoint) narrower(now clock.Time, s *session, n int) {
	e.m.stats.PathDoubts++
	e.holdTo(s, n)
	s.path.proven = true
	s.path.trust()
	s.recovery.progress(now, s)
	if g := s.flight.head; g != nil {
		e.m.resend(s, e.m.first(s, g), &e.m.stats.TimeoutResends)
	}
}
