package rel

import (
	"math"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/wire"
)

// A network in the middle may carry less than both ends, and need not say so:
//
//	NIC ══ 1500 ══ router ── 1400 ── switch ── 1300 ── router ══ 1500 ══ NIC
//
// So a session begins with frames that every path carries, and finds out with real ones, probes of the length in
// question, how long they may be (as in RFC 8899). Nothing waits for that: on an ordinary path the first probe, of all that both
// ends take, is answered one round trip after the session has opened.
//
//	session opens                all that both take is tried         answered
//	  SureFrame ────────────────► then halfway to what failed, … ────────────────► all that both take, or what the path carries
//	      ▲                                   ▲                                              │                │
//	      │                                   └──────────────────────── PathRaise later ─────│────────────────┤
//	      └──────────────── long frames are lost again and again, and short ones are not ────┴────────────────┘
//
// Each try is two probes, one of the length in question and a small one, and counts as failed only if the small one
// came back: a peer that is silent says nothing about lengths.
//
// What was made for longer frames than the path has turned out to carry goes in parts; see parts.go.
type path struct {
	goal   int  // the longest frame that both NICs take, in bytes
	size   int  // frames of so many bytes get through
	failed int  // frames of so many do not, or are longer than goal
	limit  int  // what a segment costs whose frame has size bytes
	proven bool // a probe of size bytes has been answered

	trying  int        // length of the probes under way, 0 if there are none
	id      uint64     // of the first probe of this search; those of the nth try have 2n and 2n + 1 more
	sent    uint64     // tries of this search
	missed  int        // of this length, those of which only the small probe has come back
	both    bool       // of the last try, both have left
	back    bool       // and the small one has come back
	nextAt  clock.Time // when the next try is due
	quiet   uint       // tries in a row that nothing has come back of
	raiseAt clock.Time // when a path that carries less than goal is tried anew

	from uint64 // packet counter of the last frame before size became what it is
	lost int    // long segments given up for lost since one was acknowledged
	told int    // size that was counted as narrow, 0 if it is not
}

// startPath prepares what a fresh session knows of its path.
func (e *Endpoint) startPath(s *session) {
	p := &s.path
	p.goal = e.channels[wire.Data].most
	if !e.m.cfg.Narrow || s.reliable {
		p.size, p.limit = p.goal, math.MaxInt
		return
	}
	e.holdTo(s, min(p.goal, limits.SureFrame))
}

// holdTo has frames be of n bytes at most.
func (e *Endpoint) holdTo(s *session, n int) {
	s.path.size, s.path.limit, s.path.from = n, n+limits.FrameCost, s.counter
	for i := range e.channels {
		e.channels[i].mtu = min(e.channels[i].most, n)
	}
}

// search begins to find out how long frames may be, from all that both ends take downwards.
func (e *Endpoint) search(s *session) {
	p := &s.path
	if p.size >= p.goal {
		return
	}
	p.failed, p.id, p.sent = p.goal+1, e.m.rand.next(), 0
	e.try(s, p.goal)
}

// try has probes of n bytes sent.
func (e *Endpoint) try(s *session, n int) {
	p := &s.path
	p.trying, p.missed, p.quiet = n, 0, 0
	e.owe(dutyPath)
}

// sendPathProbes makes one try.
func (m *Module) sendPathProbes(now clock.Time, s *session, out Frames) bool {
	p := &s.path
	if p.trying == 0 {
		return true
	}
	id := p.id + 2*p.sent
	if !m.sendProbe(s, wire.KindProbe, wire.Probe{ID: id + 1, Size: wire.ProbeLen}, out) {
		return false
	}
	// If the driver has no room for this one, it is as good as lost. To try both again would fill a short queue for ever.
	p.both = m.sendProbe(s, wire.KindProbe, wire.Probe{ID: id, Size: uint32(p.trying - wire.OuterLen - m.tagLen)}, out)
	p.sent++
	p.back = false
	wait := max(4*s.rtt.smooth, limits.PathPatience) << min(p.quiet, 8)
	p.nextAt = now.Add(min(wait, m.cfg.ProbeEvery))
	s.endpoint.book(now, p.nextAt)
	return true
}

// pathTimer draws the conclusions from a try whose time is over, and returns when to look again.
func (e *Endpoint) pathTimer(now clock.Time) clock.Time {
	s := e.live
	p := &s.path
	switch {
	case p.trying == 0:
		if p.size < p.goal && now >= p.raiseAt {
			e.search(s)
		}
		return clock.Never
	case now < p.nextAt:
		return p.nextAt
	case !p.back:
		p.quiet++
	case p.missed+1 < limits.PathTries:
		p.missed++
	default:
		p.failed = p.trying
		e.nextLength(now, s)
	}
	p.back, p.nextAt = false, clock.Never
	if p.trying > 0 {
		e.owe(dutyPath)
	}
	return clock.Never
}

// pathReply takes an answer to a probe, if it is one of this search.
func (e *Endpoint) pathReply(now clock.Time, s *session, r wire.Probe) {
	p := &s.path
	n := r.ID - p.id
	if p.trying == 0 || n >= 2*p.sent {
		return
	}
	if n%2 == 1 {
		p.back = p.back || p.both && n/2 == p.sent-1
		return
	}
	size := int(r.Size) + wire.OuterLen + e.m.tagLen
	if size > p.goal || size <= p.size && size != p.trying {
		return
	}
	if size > p.size {
		e.holdTo(s, size)
		p.lost = 0
	}
	p.proven = true
	e.nextLength(now, s)
}

// nextLength goes on to the next length, or ends the search.
func (e *Endpoint) nextLength(now clock.Time, s *session) {
	p := &s.path
	if p.failed <= p.size { // not even what was thought to be sure
		e.holdTo(s, limits.LeastFrame)
		p.proven = true
	}
	switch {
	case p.size < p.goal && p.failed-p.size > limits.PathStep:
		e.try(s, p.size+(p.failed-p.size)/2)
		return
	case !p.proven:
		e.try(s, p.size)
		return
	}
	p.trying = 0
	switch {
	case p.size < p.goal:
		p.raiseAt = now.Add(limits.PathRaise)
		if p.told != p.size {
			p.told = p.size
			e.stats.PathsNarrowed++
		}
	case p.told != 0:
		p.told = 0
		e.stats.PathsWidened++
	}
}

// pathLoses notes that a segment is given up for lost. Of a path that has become narrow, long frames are lost again and
// again while short ones come. If nothing was heard since the segment was posted, the peer is silent rather than the path narrow.
func (m *Module) pathLoses(s *session, g *segment) {
	p, e := &s.path, s.endpoint
	if p.limit == math.MaxInt || g.cost <= limits.LeastFrame+limits.FrameCost || g.counter <= p.from || m.cfg.Defect == mutate.BlackHole {
		return
	}
	if g.sends > 1 {
		e.owe(dutyProbe) // so that the peer is heard, if it is there
	}
	if e.heard <= g.sentAt {
		return
	}
	p.lost++
	if p.lost < limits.SizeDoubt || max(int(g.sends), int(s.rtt.backoff)) < limits.SizeDoubt || p.size == limits.LeastFrame {
		return
	}
	e.stats.PathDoubts++
	p.lost = 0
	if p.size > limits.SureFrame {
		e.holdTo(s, limits.SureFrame)
	} else {
		e.holdTo(s, limits.LeastFrame)
	}
	p.proven = false
	e.search(s)
}

// FrameLengths are the longest frame that gets through to the peer, as far as is known; the longest that both NICs take; and
// the former again if the path was found to carry no more. All in bytes, and 0 without a session.
func (e *Endpoint) FrameLengths() (size, goal, narrow int) {
	if e.live == nil {
		return 0, 0, 0
	}
	p := &e.live.path
	return p.size, p.goal, p.told
}
