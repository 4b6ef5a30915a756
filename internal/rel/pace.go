package rel

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
)

// pace spreads all sending over the round trip, retransmissions included, when the path has
// thrown much away: somewhere a queue is shorter than our bursts. It then sends a third more
// than arrived lately: to find out whether there is room, and because a quarter may be lost for
// another reason, which must not slow us ever further. So a path that has no more to give loses
// a quarter at most, instead of a window again and again. On other paths bursts are the cheapest
// way: they cost one system call.
//
//	credit   ┌── limits.PaceBurst: what may leave at once
//	        ╱│╲      ╱│
//	       ╱   ╲    ╱     grows by 4/3 of what arrives
//	──────╱─────╲──╱────► time
//	            posted
type pace struct {
	credit float64    // bytes that may leave now
	at     clock.Time // when that was computed
}

const paceGain = 4.0 / 3

// paced reports whether sending to e is paced now.
func (e *Endpoint) paced(now clock.Time) bool {
	return now < e.congestion.pacedUntil && e.congestion.rate != 0
}

// mayLeave takes n bytes from the pace's credit. If the credit is smaller, it returns when it
// will suffice.
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
	// At least a microsecond, so that the due bytes are worth a poll. At most 1 ms, about a
	// round trip, since the rate may be out of date.
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

// wait requests a Progress for those that are held back.
func (m *Module) wait(until clock.Time) {
	m.heldUntil = clock.Min(m.heldUntil, until)
}

// letGo releases the held endpoints when the time has come. One that is early is held back
// again.
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
