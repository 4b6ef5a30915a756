package poller

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// A caller that has entered and is about to wait for a frame may linger inside for a moment: it may take the frame that comes then out of
// the link's hands, and need neither take the duty to poll nor give it back (USNIC-28, USNIC-38).
//
//	Enter ─► Settle ─► Linger ─► a frame: the caller takes it ─► Leave
//	           │          └────► none came soon, or another caller wants the engine ─► Leave, and Wait
//	           └───────────────► another goroutine polls: likewise

// lingers is how many looks at the link Linger begins with, some 2 µs: an answer of another core is there by then. farLingers are
// for a link that is no memory, over which an answer takes longer. Each time that it ends in vain it takes half as many, and as many
// as ever when a waiter's frame has come soon once more: where two share a core, no looking brings what the other has yet to send.
const (
	lingers      = 512
	farLingers   = 1024
	leastLingers = 1
)

// soon is by when the frame of a waiter comes for which lingering would have been better; farSoon is for the other links.
const (
	soon    = 2 * time.Microsecond
	farSoon = 5 * time.Microsecond
)

// lingerAt chooses by the link: memory takes lone messages itself, and others frames.
func (p *Poller) lingerAt(far bool) {
	p.lingers, p.soon = lingers, soon
	if far {
		p.lingers, p.soon = farLingers, farSoon
	}
	p.patience.Store(p.lingers)
}

// pollEvery is how long lingering callers leave the engine without a poll, much less than after what time the helper takes over, and
// mostUnpolled how many frames they take when a poll is due.
const (
	pollEvery    = takeover / 2
	mostUnpolled = 16
)

// Settle gets the engine ready for a caller that would Linger, inside Enter: it polls if that is due, a little later if a frame is there. ok is
// false if another goroutine polls, or will.
func (p *Poller) Settle() (now clock.Time, polled, ok bool) {
	if p.cfg.Link.Glance == nil || p.duty.Load() != nobody {
		return 0, false, false
	}
	now = Now()
	if clock.Time(p.next.Load()) > now && now.Sub(clock.Time(p.polled.Load())) < pollEvery {
		return now, false, true
	}
	if p.unpolled < mostUnpolled && p.cfg.Link.Glance() {
		p.unpolled++
		return now, false, true
	}
	p.unpolled = 0
	_, next := p.poll(now)
	return now, true, next > now
}

// Linger waits inside Enter, behind Settle, until the link has a frame: a moment, and not if another caller wants the engine.
// Settle has said what time it was then; Linger says what time it is.
func (p *Poller) Linger(begun clock.Time) (now clock.Time, ok bool) {
	now = begun
	glance := p.cfg.Link.Glance
	n := int(p.patience.Load())
	for i := range n {
		if glance() {
			return now, true
		}
		if p.asked() {
			return now, false
		}
		if i%glances == glances-1 {
			now = Now()
		}
	}
	p.patience.Store(int32(max(n/2, leastLingers)))
	return now, false
}

// cameSoon notes that a waiter that began at since has now what it waited for.
func (p *Poller) cameSoon(since, now clock.Time) {
	if now.Sub(since) < p.soon && p.patience.Load() != p.lingers {
		p.patience.Store(p.lingers)
	}
}
