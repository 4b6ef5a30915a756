package rel

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
)

// pace spreads what is sent over the round trip, retransmissions included, when the path has thrown much away: somewhere is
// a queue that is shorter than our bursts. As much leaves then as arrived lately, and a third more: to find out whether there
// is room, and because a quarter may be lost for another reason, which must not slow us ever further. So of a path that has no
// more to give a quarter is lost at most, where a window would be lost again and again. Elsewhere bursts are the cheapest thing: they cost one system call.
//
//	credit   ┌── limits.PaceBurst: what may leave at once
//	        ╱│╲      ╱│
//	       ╱   ╲    ╱     grows by 4/3 of what arrives
//	──────╱─────╲──╱────► time
//	            posted
type pace struct {
	credit float64    // bytes that may leave now
	at     clock.Time // when that was reckoned
}

const paceGain = 4.0 / 3

// paced reports whether what is sent to e is paced now.
func (e *Endpoint) paced(now clock.Time) bool {
	return now < e.congestion.pacedUntil && e.congestion.rate != 0
}

// mayLeave takes n bytes from the pace's credit. If there are not as many it says when there will be.
func (e *Endpoint) mayLeave(now clock.Time, n int) (at clock.Time, ok bool) {
	if !e.paced(now) {
		return 0, true
	}
	p, rate := &e.pace, e.congestion.rate*paceGain
	p.credit = min(p.credit+float64(now.Sub(p.at))*rate, limits.PaceBurst)
	p.at = now
	need := float64(min(n, limits.PaceBurst))
	if p.credit >= need {
		p.credit -= need
		return 0, true
	}
	// At least a microsecond, so that what is due is worth a poll; at most a round trip or so, since the rate may be out of date.
	wait := min(max((need-p.credit)/rate, 1e3), 1e6)
	return now.Add(time.Duration(wait)), false
}

// stays gives the pace's credit for n bytes back: the driver did not take them.
func (e *Endpoint) stays(n int) {
	e.pace.credit = min(e.pace.credit+float64(min(n, limits.PaceBurst)), limits.PaceBurst)
}

// holdBack leaves an endpoint alone until its pace lets it go on.
func (m *Module) holdBack(e *Endpoint, until clock.Time) {
	m.wait(until)
	if !e.held {
		e.held = true
		m.held = append(m.held, e)
	}
}

// wait has Progress called again for those that are held back.
func (m *Module) wait(until clock.Time) {
	m.heldUntil = clock.Min(m.heldUntil, until)
}

// letGo has those go on whose time has come. One that is early waits again.
func (m *Module) letGo(now clock.Time) {
	if now < m.heldUntil {
		return
	}
	m.heldUntil, m.heldInRow = clock.Never, 0
	if m.cfg.Defect == mutate.PaceForgotten {
		return
	}
	for i, e := range m.held {
		e.held = false
		e.toSend()
		m.held[i] = nil
	}
	m.held = m.held[:0]
}
