package poller

import (
	"runtime"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
)

// While callers poll, the helper looks now and then whether they still do: first soon, then more rarely, since callers
// who are there tend to stay. The last figure bounds how late a deadline is met when they do not, and costs under one
// percent of a core.
//
// It also bounds how late a command leaves that a start form posted while the NIC listened and that no caller waits for.
// Measured on two busy cores: 200 µs instead brings the slowest tenth of those from 526 to 196 µs, but the slowest tenth
// of round trips from 30 to about 200 µs, since the helper takes a core from the waiter that polls. A poll within each start form
// would send frames one by one, at a fifth of the rate over UDP. A caller in a hurry waits.
const (
	firstLook = 50 * time.Microsecond
	rareLook  = 500 * time.Microsecond
)

// shortSleep is the sleep that is not worth its wake-up: shorter deadlines are yielded for.
const shortSleep = 100 * time.Microsecond

// help is the helper goroutine.
func (p *Poller) help() {
	defer close(p.stopped)
	for !p.closed.Load() {
		if p.duty.Load() == helper {
			p.watch()
		} else {
			p.standBy()
		}
	}
}

// standBy waits until the helper has the duty: because the last waiter gave it up, or because no waiter has polled for a
// while.
func (p *Poller) standBy() {
	for look := firstLook; !p.closed.Load(); look = min(2*look, rareLook) {
		switch p.duty.Load() {
		case helper:
			return
		case nobody:
			quiet := Now().Sub(clock.Time(p.polled.Load()))
			if quiet >= takeover && p.duty.CompareAndSwap(nobody, helper) {
				p.returns.Store(0)
				return
			}
		}
		p.sleep.nap(look)
		p.nudged.Store(false) // behind the sleep, before the next look: see nudge
	}
}

// watch polls while the helper has the duty, and parks when there is nothing to do, or at once where another thread computes beside it:
// one that sleeps is given the core when a frame wakes it, one that looks has to wait for its turn. It polls once in any case: it took the
// duty because no waiter had polled for long, and a caller that enters again and again takes it away, but does not poll. What programs of the
// NIC answer no caller waits for: when they have, the next message may be near, and the helper is awake for it as a waiter would be.
func (p *Poller) watch() {
	idle.Enter()
	defer idle.Leave()
	for polled := false; (!polled || p.duty.Load() == helper) && !p.closed.Load(); {
		if !p.mu.TryLock() {
			idle.Relax()
			continue
		}
		polled = true
		p.arrived.Store(false)
		now := Now()
		work, next := p.poll(now)
		if work == 0 && p.answers > 0 && next > now && now.Sub(p.answered) < p.cfg.Awake && p.glance() {
			work, next = p.poll(now)
		}
		listening := p.engine.Listening()
		if n := p.engine.Answered(); n != p.answers {
			p.answers, p.answered = n, now
		}
		woken := p.unlock()
		switch {
		case p.duty.Load() != helper:
		case woken:
			runtime.Gosched()
		case work > 0:
			p.slow.Work(now)
		case listening, next.Sub(now) < shortSleep, p.answers > 0 && now.Sub(p.answered) < p.cfg.Awake: // a post to a queue that is listened to does not ring
			if !p.slow.Rest(now, p.cfg.yield, Now) || listening && !p.endListening(now, next) {
				continue
			}
			fallthrough
		default:
			p.doze(now, next)
			polled = p.duty.Load() == waiter // else the helper has to see what ended the sleep
		}
	}
}

// endListening has processes ring for their next commands, for a helper that had better park though they were listened to just now. It
// reports whether they all do.
func (p *Poller) endListening(now, next clock.Time) bool {
	if !p.mu.TryLock() {
		return false
	}
	p.engine.EndListening()
	p.due(now, next)
	listening := p.engine.Listening()
	p.unlock()
	return !listening
}

// doze parks until next, a frame, or a nudge. It says first that it sleeps and looks then for the last time, so that
// a caller that changes something sees that a nudge is needed, or is seen.
func (p *Poller) doze(now, next clock.Time) {
	p.asleep.Store(int64(next))
	if p.linkSleeps() && clock.Time(p.next.Load()) >= next && !p.arrived.Load() && !p.closed.Load() && p.duty.Load() == helper {
		d := time.Duration(-1)
		if next != clock.Never {
			d = next.Sub(now)
		}
		idle.Leave()
		p.sleep.sleep(d, true)
		idle.Enter()
	}
	p.asleep.Store(0)
	p.nudged.Store(false)
	if p.duty.Load() == nobody { // a waiter took the duty while we slept, and left
		p.duty.CompareAndSwap(nobody, helper)
	}
}

// linkSleeps tells a link that has to know that the helper parks. It is false if there are frames, or if a waiter polls
// right now. Polls of others do not end the link's sleep: the first frame then wakes the helper for nothing, which is
// better than frames that come when they are through and wake no thread.
func (p *Poller) linkSleeps() bool {
	sleep := p.cfg.Link.Sleep
	if sleep == nil {
		return true
	}
	if !p.mu.TryLock() {
		return false
	}
	ready := sleep()
	p.unlock()
	return !ready
}
