package poller

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// Who has entered and is about to wait for a frame may linger inside for a moment: the frame that comes then is his to take out of
// the link's hands, and he need neither take the duty to poll nor give it back (USNIC-28, USNIC-38).
//
//	Enter ─► Settle ─► Linger ─► a frame: the caller takes it ─► Leave
//	           │          └────► none came soon, or somebody else wants the engine ─► Leave, and Wait
//	           └───────────────► somebody else polls: likewise

// lingers is how many looks at the link Linger begins with, some 2 µs: an answer of another core is there by then. Each time that it
// ends in vain it takes half as many, and as many as ever when a waiter's frame has come soon once more: where two share a
// core, no looking brings what the other has yet to send.
const (
	lingers      = 512
	leastLingers = 1
)

// soon is by when the frame of a waiter comes for whom lingering would have been better.
const soon = 2 * time.Microsecond

// pollEvery is how long those who linger leave the engine without a poll, much less than after what time the helper takes over, and
// mostUnpolled how many frames they take when a poll is due.
const (
	pollEvery    = takeover / 2
	mostUnpolled = 16
)

// Settle gets the engine ready for who would Linger, inside Enter: it polls if that is due, a little later if a frame is there. ok is
// false if somebody else polls, or will.
func (p *Poller) Settle() (now clock.Time, polled, ok bool) {
	if p.glancer == nil || p.duty.Load() != nobody {
		return 0, false, false
	}
	now = Now()
	if clock.Time(p.next.Load()) > now && now.Sub(clock.Time(p.polled.Load())) < pollEvery {
		return now, false, true
	}
	if p.unpolled < mostUnpolled && p.glancer.Glance() {
		p.unpolled++
		return now, false, true
	}
	p.unpolled = 0
	_, next := p.poll(now)
	return now, true, next > now
}

// Linger waits inside Enter, behind Settle, until the link has a frame: a moment, and not if somebody else wants the engine.
func (p *Poller) Linger() bool {
	n := int(p.patience.Load())
	for range n {
		if p.glancer.Glance() {
			return true
		}
		if p.asked() {
			return false
		}
	}
	p.patience.Store(int32(max(n/2, leastLingers)))
	return false
}

// cameSoon notes that a waiter who began at since has now what he waited for.
func (p *Poller) cameSoon(since, now clock.Time) {
	if now.Sub(since) < soon && p.patience.Load() != lingers {
		p.patience.Store(lingers)
	}
}
