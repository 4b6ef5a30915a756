package rel

import (
	"fmt"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/wire"
)

// CheckStatus is the state of a connectivity check.
type CheckStatus uint8

const (
	CheckNone    CheckStatus = iota // none was asked for
	CheckRunning                    // some answers have not arrived
	CheckOK                         // frames of both sizes get through, in both directions
	CheckFailed                     // the text says which do not
)

func (s CheckStatus) String() string {
	return [...]string{"none", "running", "ok", "failed"}[s]
}

// check is a connectivity check (USNIC-61): probes in two sizes, the smallest and one that fills
// a frame of the data channel. Each is sent every ProbeEvery until it is answered,
// limits.CheckTries times at most. A path that carries small frames but no large ones has an MTU
// smaller than one end believes, and that is worth a message of its own.
type check struct {
	status CheckStatus
	tries  uint8
	got    [2]bool // small, large
	size   int32   // of the large probe's frame, in bytes
	text   string
	id     uint64 // of the small probe; the large one has the next
	nextAt clock.Time
}

func (c *check) running() bool { return c.status == CheckRunning }

// Check begins a connectivity check, opening a session first if there is none. CheckResult
// returns the outcome.
func (e *Endpoint) Check(now clock.Time) {
	id := e.m.cfg.Secrets.Uint64(secret.Probe) | 1 // odd, so that it differs from keepalive
	e.check = check{status: CheckRunning, id: id, nextAt: now}
	if e.opened(now) {
		e.book(now, e.checkTimer(now))
	}
}

// CheckResult returns the state of the last check, and the reason if it failed.
func (e *Endpoint) CheckResult() (CheckStatus, string) { return e.check.status, e.check.text }

// checkTimer requests the probes that are due and returns when to look again.
func (e *Endpoint) checkTimer(now clock.Time) clock.Time {
	c := &e.check
	if !c.running() {
		return clock.Never
	}
	if now < c.nextAt {
		return c.nextAt
	}
	if c.tries == limits.CheckTries {
		c.fail(e)
		return clock.Never
	}
	c.tries++
	c.nextAt = now.Add(e.m.cfg.ProbeEvery)
	c.size = int32(e.channels[wire.Data].most)
	e.owe(dutyCheck)
	return c.nextAt
}

// sendChecks sends the unanswered probes.
func (m *Module) sendChecks(s *session, out Frames) bool {
	e := s.endpoint
	c := &e.check
	sizes := [2]int{wire.ProbeLen, e.largestProbe()}
	for i, size := range sizes {
		if c.running() && !c.got[i] && !m.sendProbe(s, s.addr, wire.KindProbe,
			wire.Probe{ID: c.id + uint64(i), Size: uint32(size)}, out) {
			return false
		}
	}
	return true
}

// receiveProbeReply takes the answer to a probe. A plain keepalive needs no more: the arrival of
// its answer is enough.
func (m *Module) receiveProbeReply(now clock.Time, from netip.AddrPort, s *session, body []byte) {
	e := s.endpoint
	p, err := wire.ParseProbe(body)
	if err != nil {
		m.stats.Malformed++
		return
	}
	m.stats.ProbeReceives++
	e.pathReply(now, s, p)
	m.confirmed(now, s, p.ID)
	m.echoed(now, s, from, p.ID)
	if s.sealed.arrived(now, p.ID); e.live != s {
		return
	}
	c := &e.check
	if i := p.ID - c.id; c.running() && i < 2 {
		c.got[i] = true
		if c.got[0] && c.got[1] {
			c.status = CheckOK
		}
	}
}

// fail ends the check with one of its three texts.
func (c *check) fail(e *Endpoint) {
	who := fmt.Sprintf("NIC %v at %v", nicid.ID(e.nic), e.addr)
	if e.nic == 0 {
		who = fmt.Sprintf("the NIC at %v", e.addr) // it has never told its id
	}
	c.status = CheckFailed
	switch {
	case c.got[0]:
		c.text = fmt.Sprintf(
			"%s: small frames get through, frames of %d bytes do not: the path has a smaller MTU than both ends",
			who, c.size)
	case c.got[1]:
		c.text = fmt.Sprintf(
			"%s: frames of %d bytes get through, small ones do not: something on the path filters them", who, c.size)
	default:
		c.text = fmt.Sprintf(
			"%s: neither small frames nor large ones get through: the NIC is down, elsewhere, behind a filter, "+
				"or refuses this one",
			who)
	}
}

// lost ends a check whose session ended.
func (c *check) lost(e *Endpoint) {
	if c.running() {
		c.fail(e)
	}
}
