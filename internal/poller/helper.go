package poller

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
)

// While callers poll, the helper checks now and then that they still do: first soon, then more
// rarely, since callers that are there tend to stay. rareLook bounds how late a deadline is met
// when they do not, and costs a small part of a core.
//
// It also bounds how late a command leaves that a start form posted while the NIC listened, if
// no caller waits for it. On busy cores a smaller figure lets the slowest of those leave sooner,
// but makes the slowest round trips several times as long, since the helper takes a core from
// the waiter that polls. A poll within each start form would send frames one by one, at a
// fraction of the rate over UDP. A caller in a hurry waits.
const (
	firstLook = 50 * time.Microsecond
	rareLook  = 500 * time.Microsecond
)

// shortSleep is the sleep that is not worth its wake-up: for shorter deadlines the poller
// yields.
const shortSleep = 100 * time.Microsecond

// helpers is the number of helpers of this program: one for each NIC.
var helpers atomic.Int32

// help is the helper goroutine.
func (p *Poller) help() {
	defer close(p.stopped)
	helpers.Add(1)
	defer helpers.Add(-1)
	for !p.closed.Load() {
		if p.duty.Load() == helper {
			p.watch()
		} else {
			p.standBy()
		}
	}
}

// standBy waits until the helper has the duty, either because the last waiter gave it up or
// because no waiter has polled for a while.
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
		p.alarm.sleep(look)
		p.helps.nudged.Store(false) // after the sleep, before the next look: see nudge
	}
}

// watch polls while the helper has the duty, and parks when there is nothing to do. If another
// thread computes on its core it parks at once: the kernel gives the core to a sleeper when a
// frame wakes it, but a poller has to wait for its turn.
//
// It polls at least once. It took the duty because no waiter had polled for long, and a caller
// that enters again and again takes the duty away but does not poll.
//
// No caller waits for the answers of programs in the NIC. After such an answer the next message
// may be near, and the helper stays awake for it as a waiter would.
//
// It shares its processor again and again, crowded or not. Otherwise no thread may be left that
// polls the program's own sockets, such as those by which pages are requested, and the runtime
// alone polls those only every 10 ms. Sharing makes another thread poll them.
func (p *Poller) watch() {
	idle.Enter()
	defer idle.Leave()
	now := Now()
	shared := now
	for polled := false; (!polled || p.duty.Load() == helper) && !p.closed.Load(); {
		if now.Sub(shared) > shareAfter {
			shared = now
			runtime.Gosched()
		}
		if !p.mu.TryLock() {
			idle.Relax()
			continue
		}
		polled = true
		p.arrived.Store(false)
		now = Now()
		work, next := p.poll(now)
		if work == 0 && next > now && p.answering(now) && p.glance() {
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
		// listening: a post to a queue that is listened to does not ring.
		case listening, next.Sub(now) < shortSleep, p.answering(now):
			if !p.slow.Rest(now, p.cfg.yield, Now) || listening && !p.endListening(now, next) {
				continue
			}
			fallthrough
		default:
			p.doze(&p.helps, helper, now, next)
			// A waiter may have taken the duty while the helper slept, and left.
			p.duty.CompareAndSwap(nobody, helper)
			polled = p.duty.Load() == waiter // else the helper must see what ended the sleep
		}
	}
}

// answering reports whether a program has answered so recently that the next message for one may
// be near.
func (p *Poller) answering(now clock.Time) bool {
	return p.answers > 0 && now.Sub(p.answered) < p.cfg.Awake
}

// endListening makes processes ring for their next commands. It serves a helper that should park
// although they were listened to until now. It reports whether all of them will ring.
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

// mostNod is how long a waiter sleeps with the duty: longer than an answer from a busy host
// takes. After that it should keep no thread, and must learn at once if its context ends.
const mostNod = 2 * time.Millisecond

// nod makes the waiter with the duty sleep as the helper would, for a while. It then gets an
// arriving frame at once; the helper would have to wake it in turn. It reports whether the
// waiter should continue.
func (p *Poller) nod(ctx context.Context, ready func() bool) bool {
	if !p.mu.TryLock() {
		return true
	}
	p.arrived.Store(false)
	now := Now()
	work, next := p.poll(now)
	p.engine.EndListening()
	p.due(now, next)
	listening := p.engine.Listening()
	p.unlock()
	if work > 0 || listening {
		return true
	}
	w := p.waiters.AddRoused(ready, p.rouse)
	defer p.waiters.Remove(w)
	if ready() {
		return true
	}
	end := now.Add(mostNod)
	if t, ok := ctx.Deadline(); ok {
		end = min(end, now.Add(time.Until(t)))
	}
	if end <= now {
		return false
	}
	p.doze(&p.leads, waiter, now, min(next, end))
	return Now() < end
}
