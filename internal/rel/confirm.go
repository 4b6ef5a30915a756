package rel

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/mutate"
)

// Over a Reliable link a segment counts as acknowledged when its frame is committed. Of a message in one frame nothing more needs to be
// known: the frame comes before the end of the session, with all that was sent before it, or neither it nor anything behind it does. A
// message in several frames can be cut in two: its first frame was matched, later messages have overtaken the rest, and then the peer gives
// the session up. So a fragment with Confirm is not finished before the peer has answered a probe that left behind its last frame:
//
//	sender    piece ─ piece ─ last piece ─ probe ─────────────────► finished: Released
//	receiver      piece ─ piece ─ last piece ─ probe ─► reply ─────┘
//	                                            └ or the session is over here: no reply, the session ends, Released with the reason
//
// One probe is under way at a time, and asks about all that was committed before it.
type confirming struct {
	fragments []*Fragment // committed whole and not confirmed, oldest first
	underway  bool        // a probe that asks about fragments has not been answered
	asked     int         // so many of them it asks about
	id        uint64      // of it, or of the last
}

// confirmProbe marks the ids of probes that ask so.
const confirmProbe = 1 << 63

// unconfirmed has f, whose last piece was committed, wait until the peer has all of it.
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

// waits reports whether a fragment does.
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

// confirmed takes the answer to a probe: the fragments that the last one asked about have arrived.
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

// forget takes out a fragment that was withdrawn.
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

// audit looks whether each fragment that waits is, or will be, asked about.
func (c *confirming) audit(e *Endpoint) error {
	if c.waits() && !c.underway && e.duties&dutyProbe == 0 {
		return fmt.Errorf("%d fragments are not confirmed, and no probe asks about them", len(c.fragments))
	}
	return nil
}

// mustConfirm reports whether a fragment whose pieces have all left waits for the peer's word.
func (m *Module) mustConfirm(e *Endpoint, f *Fragment) bool {
	return f.Confirm && e.live != nil && e.live.reliable && m.cfg.Defect != mutate.CommittedBelieved
}
