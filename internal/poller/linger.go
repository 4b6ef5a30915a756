package poller

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// A caller that has entered and is about to wait for a frame may linger inside for a moment. If
// the frame arrives then, the caller takes it straight from the link, and need neither take the
// duty to poll nor give it back (USNIC-28, USNIC-38).
//
//	Enter ─► Settle ─► Linger ─► a frame: the caller takes it ─► Leave
//	           │          └────► none soon, or another caller wants the engine ─► Leave, and Wait
//	           └───────────────► another goroutine polls ─► Leave, and Wait

// lingers is the number of looks at the link with which Linger begins, some 2 µs: an answer of
// another core is there by then. farLingers is for a link that is not memory, over which an
// answer takes longer. Each time that it ends without a frame Linger halves the number, and it
// restores the full number when a waiter's frame has come soon again: if two processes share a
// core, no look brings a frame that the other has yet to send.
const (
	lingers      = 512
	farLingers   = 1024
	leastLingers = 1
)

// soon is the time within which the frame of a waiter must arrive for lingering to have been
// better; farSoon is for the other links.
const (
	soon    = 2 * time.Microsecond
	farSoon = 5 * time.Microsecond
)

// lingerAt chooses by the link: memory takes lone messages itself, other links take frames.
func (p *Poller) lingerAt(far bool) {
	p.lingers, p.soon = lingers, soon
	if far {
		p.lingers, p.soon = farLingers, farSoon
	}
	p.patience.Store(p.lingers)
}

// pollEvery is how long lingering callers leave the engine without a poll, much less than the
// time after which the helper takes over. mostUnpolled is how many frames they take when a poll
// is due.
const (
	pollEvery    = takeover / 2
	mostUnpolled = 16
)

// Settle gets the engine ready for a caller that would Linger, inside Enter. It polls if that is
// due, a little later if a frame is there. ok is false if another goroutine polls, or will.
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

// Linger waits for a moment inside Enter, after Settle, until the link has a frame, but not if
// another caller wants the engine. begun is the time that Settle returned. Linger returns the
// present time, and in ok whether there is a frame.
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

// cameSoon notes that a waiter that began at since has its result now.
func (p *Poller) cameSoon(since, now clock.Time) {
	if now.Sub(since) < p.soon && p.patience.Load() != p.lingers {
		p.patience.Store(p.lingers)
	}
}
