package rel

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
)

// Over a Reliable link a segment counts as acknowledged when its frame is committed. For a
// message in one frame this suffices: the frame arrives before the end of the session, with
// everything sent before it, or neither it nor anything after it arrives. A message in several
// frames can be cut in two: its first frame was matched, later messages have overtaken the rest,
// and then the peer gives the session up. So a fragment with Confirm is finished only when the
// peer has answered a probe that left after its last frame:
//
//	sender    piece ─ piece ─ last piece ─ probe ─────────────────► finished: Released
//	receiver      piece ─ piece ─ last piece ─ probe ─► reply ─────┘
//	                                            └ or the session is over here: no reply,
//	                                              the session ends, Released with the reason
//
// At most one probe is in flight. It asks about everything that was committed before it.
type confirming struct {
	fragments []*Fragment // committed whole and not confirmed, oldest first
	underway  bool        // a probe that asks about fragments has not been answered
	asked     int         // how many of them it asks about
	id        uint64      // of that probe, or of the last one
}

// confirmProbe marks the ids of such probes.
const confirmProbe = 1 << 63

// unconfirmed makes f, whose last piece was committed, wait until the peer has all of it.
func (m *Module) unconfirmed(s *session, f *Fragment) {
	if s.confirming == nil {
		s.confirming = &confirming{id: confirmProbe}
	}
	c := s.confirming
	c.fragments = append(c.fragments, f)
	if !c.underway {
		s.endpoint.owe(dutyProbe)
	}
}

// waits reports whether a fragment waits for confirmation.
func (c *confirming) waits() bool { return c != nil && len(c.fragments) > 0 }

// asks reports whether a probe that asks about fragments has not been answered.
func (c *confirming) asks() bool { return c != nil && c.underway }

// ask returns the id of the next probe: keepalive if it asks about no fragment.
func (c *confirming) ask() uint64 {
	if !c.waits() {
		return keepalive
	}
	c.underway, c.asked = true, len(c.fragments)
	c.id++
	return c.id
}

// confirmed takes the answer to a probe: the fragments that the last probe asked about have
// arrived.
func (m *Module) confirmed(now clock.Time, s *session, id uint64) {
	c := s.confirming
	if c == nil || !c.underway || id != c.id {
		return
	}
	for _, f := range c.fragments[:c.asked] {
		s.endpoint.over(f)
		m.finished = append(m.finished, f)
	}
	c.fragments = slices.Delete(c.fragments, 0, c.asked)
	if c.asked, c.underway = 0, false; len(c.fragments) > 0 {
		s.endpoint.owe(dutyProbe)
	}
	m.tellFinished(now)
}

// forget removes a fragment that was withdrawn.
func (c *confirming) forget(f *Fragment) {
	if c == nil {
		return
	}
	if i := slices.Index(c.fragments, f); i >= 0 {
		c.fragments = slices.Delete(c.fragments, i, i+1)
		if i < c.asked {
			c.asked--
		}
	}
}

// audit checks that a probe asks, or will ask, about each waiting fragment.
func (c *confirming) audit(e *Endpoint) error {
	if c.waits() && !c.underway && e.duties&dutyProbe == 0 {
		return fmt.Errorf("%d fragments are not confirmed, and no probe asks about them", len(c.fragments))
	}
	return nil
}

// mustConfirm reports whether a fragment whose pieces have all left waits for the peer's
// confirmation.
func (m *Module) mustConfirm(e *Endpoint, f *Fragment) bool {
	return f.Confirm && e.live != nil && e.live.reliable && m.cfg.Defect != mutate.CommittedBelieved
}
