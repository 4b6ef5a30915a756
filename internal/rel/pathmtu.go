package rel

import (
	"math"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/wire"
)

// A network in the middle may carry less than both ends, and need not report it:
//
//	NIC ══ 1500 ══ router ── 1400 ── switch ── 1300 ── router ══ 1500 ══ NIC
//
// So a session begins with frames that nearly every path carries. It finds the longest possible
// ones with real frames, probes of the length in question (as in RFC 8899). Nothing waits for
// that: on an ordinary path the first probe, of the longest frame that both ends take, is
// answered one round trip after the session has opened.
//
//	session opens       goal is tried                        answered
//	  SureFrame ───────► then halfway to what failed, … ──────────► goal, or what the path carries
//	      ▲                            ▲                              │                │
//	      │                            └───────────── PathRaise later ┼────────────────┤
//	      └── it comes into doubt, and its probes fail (blackhole.go) ┴────────────────┘
//
// Each try is a probe of the length in question and a small one, and counts as failed only if
// the small one came back: a silent peer says nothing about lengths. If this length failed, a
// shorter one would have to do. As long as it is not known whether that one will, a try probes
// it too, so that no question waits for the answer to another.
//
// Segments that were made for longer frames than the path carries go in parts; see parts.go.
type path struct {
	goal   int // the longest frame that both NICs take, in bytes
	size   int // frames of this length get through
	failed int // frames of this length do not, or are longer than goal
	limit  int // cost of a segment whose frame has size bytes

	// The length of the probes in flight, 0 if there are none; size if that is in doubt.
	trying int
	// The length that would have to do if that one failed, 0 if it is known whether it will.
	below  int
	resume int    // length that was tried when size came into doubt, 0 if none was
	id     uint64 // of the first probe of this search; those of the nth try have 3n to 3n + 2 more
	sent   uint32 // tries of this search
	// Tries of this length in which only the small probe returned.
	missed  int32
	proven  bool       // a probe of size bytes was answered, or every path carries size bytes
	quiet   uint8      // tries in a row without any answer
	holds   bool       // a probe of below bytes has been answered
	all     bool       // of the last try, all probes have left
	back    bool       // and the small one has returned
	nextAt  clock.Time // when the next try is due
	raiseAt clock.Time // when a path that carries less than goal is tried anew

	from uint64 // packet counter of the last frame before size changed last
	// Long segments given up for lost since one of their length was acknowledged.
	lost int32
	told int32 // size that was counted as narrow, 0 if it is not
	// The cost of the longest of them; no segment costs as much if there are none.
	suspect int
}

// startPath prepares a fresh session's knowledge of its path.
func (e *Endpoint) startPath(s *session) {
	p := &s.path
	p.goal, p.suspect = e.channels[wire.Data].most, math.MaxInt
	if !e.m.cfg.Narrow || s.reliable {
		p.size, p.limit = p.goal, math.MaxInt
		return
	}
	e.holdTo(s, min(p.goal, limits.SureFrame))
}

// holdTo limits frames to n bytes.
func (e *Endpoint) holdTo(s *session, n int) {
	e.MarkChanged()
	s.path.size, s.path.limit, s.path.from = n, n+limits.FrameCost, s.packets.counter
	for i := range e.channels {
		e.channels[i].mtu = min(e.channels[i].most, n)
	}
}

// search begins to find out how long frames may be, from the longest that both ends take
// downwards.
func (e *Endpoint) search(s *session) {
	p := &s.path
	if p.size >= p.goal {
		p.trying = 0
		return
	}
	p.failed, p.id, p.sent = p.goal+1, e.m.cfg.Secrets.Uint64(secret.Probe), 0
	e.try(s, p.goal)
}

// try requests probes of n bytes.
func (e *Endpoint) try(s *session, n int) {
	p := &s.path
	p.trying, p.missed, p.quiet = n, 0, 0
	p.below, p.holds = 0, false
	if n > p.size && !p.proven {
		p.below = p.size
	} else if n == p.size && n > limits.SureFrame {
		p.below = limits.SureFrame
	}
	p.back, p.nextAt = false, clock.Never
	e.owe(dutyPath)
}

// The probes of each try, in the order in which they are sent.
const (
	probeSmall = iota // asks whether the peer is heard at all
	probeBelow        // of path.below bytes, if that is not 0
	probeLong         // of path.trying bytes
	probesOfTry
)

// sendPathProbes makes one try.
func (m *Module) sendPathProbes(now clock.Time, s *session, out Frames) bool {
	p := &s.path
	if p.trying == 0 {
		return true
	}
	id := p.id + probesOfTry*uint64(p.sent)
	if !m.sendProbe(s, s.addr, wire.KindProbe, wire.Probe{ID: id + probeSmall, Size: wire.ProbeLen}, out) {
		return false
	}
	// If the driver has no room for these, they are as good as lost. To try all again would fill
	// a short queue for ever.
	p.all = p.below == 0 || m.sendLength(s, id+probeBelow, p.below, out)
	p.all = m.sendLength(s, id+probeLong, p.trying, out) && p.all
	p.sent++
	p.back = false
	p.nextAt = now.Add(min(s.probePatience()<<p.quiet, m.cfg.ProbeEvery))
	s.endpoint.book(now, p.nextAt)
	return true
}

// sendLength sends a probe in a frame of n bytes.
func (m *Module) sendLength(s *session, id uint64, n int, out Frames) bool {
	return m.sendProbe(s, s.addr, wire.KindProbe,
		wire.Probe{ID: id, Size: uint32(n - wire.OuterLen - s.packets.tagLen())}, out)
}

// probePatience returns how long a try waits for answers. A longer frame than before may wait
// longer.
func (s *session) probePatience() time.Duration {
	if s.path.doubted() {
		return s.rtt.patience(s.peerDelay())
	}
	return max(4*s.rtt.smooth, limits.PathPatience)
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
		p.quiet = min(p.quiet+1, 8)
	case p.missed+1 < limits.PathTries:
		p.missed++
	case p.doubted():
		e.goesDown(now, s)
	default:
		p.failed = p.trying
		// Not even the length that was considered sure got through: it was probed as often.
		if !p.proven {
			p.failed = p.size
			e.narrower(now, s, e.least())
		}
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
	if p.trying == 0 || n >= probesOfTry*uint64(p.sent) {
		return
	}
	size := int(r.Size) + wire.OuterLen + e.tagLen()
	switch n % probesOfTry {
	case probeSmall:
		p.back = p.back || p.all && n/probesOfTry == uint64(p.sent)-1
	case probeBelow:
		p.holds = p.holds || size == p.below
		p.proven = p.proven || size == p.size
	case probeLong:
		if size > p.goal || size < p.size {
			return
		}
		if p.doubted() {
			e.holdsAfterAll(s)
			return
		}
		if size == p.size {
			return
		}
		e.holdTo(s, size)
		p.proven = true
		e.nextLength(now, s)
	}
}

// nextLength goes on to the next length, or ends the search.
func (e *Endpoint) nextLength(now clock.Time, s *session) {
	p := &s.path
	if p.size < p.goal && p.failed-p.size > limits.PathStep {
		e.try(s, p.size+(p.failed-p.size)/2)
		return
	}
	p.trying = 0
	e.MarkChanged()
	switch {
	case p.size < p.goal:
		p.raiseAt = now.Add(limits.PathRaise)
		if int(p.told) != p.size {
			p.told = int32(p.size)
			e.m.stats.PathsNarrowed++
		}
	case p.told != 0:
		p.told = 0
		e.m.stats.PathsWidened++
	}
}

// FrameLengths returns the longest frame that is known to get through to the peer, the longest
// that both NICs take, and the former again if the path was found to carry no more. All are in
// bytes, and 0 without a session.
func (e *Endpoint) FrameLengths() (size, goal, narrow int) {
	if e.live == nil {
		return 0, 0, 0
	}
	p := &e.live.path
	return p.size, p.goal, int(p.told)
}

// PathState says how the longest frame that reaches the peer was found.
type PathState uint8

// The states of a path.
const (
	PathNone      PathState = iota // no session
	PathGiven                      // the link carries each frame that both NICs take; nothing is probed
	PathAssumed                    // nearly every path carries it; longer probes are in flight
	PathSearching                  // a probe of this length was answered; longer ones are in flight
	PathProbed                     // a probe of the length that both NICs take was answered
	PathNarrow                     // longer probes were lost, or longer frames are not tried now
	PathDoubted                    // frames of this length were lost; probes of it are in flight
)

func (s PathState) String() string {
	names := [...]string{"none", "given", "assumed", "searching", "probed", "narrow", "doubted"}
	return names[min(int(s), len(names)-1)]
}

// PathState returns the state of the path to the peer.
func (e *Endpoint) PathState() PathState {
	s := e.live
	if s == nil {
		return PathNone
	}
	p := &s.path
	switch {
	case p.limit == math.MaxInt || p.goal <= limits.SureFrame:
		return PathGiven
	case p.trying == 0 && p.size >= p.goal:
		return PathProbed
	case p.trying == 0:
		return PathNarrow
	case p.doubted():
		return PathDoubted
	case p.proven:
		return PathSearching
	}
	return PathAssumed
}
