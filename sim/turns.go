package sim

import (
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
)

// turns lends the NIC of a process to its straight way: between two turns that the scheduler gives it. What internal/poller does on the
// real clock is done here in virtual time.
//
//	Enter ─► Settle ─► Linger: the caller's coroutine parks ─► a frame arrives: it goes on before the NIC has a turn
//	                                                      ├──► the NIC has a turn, or another caller enters: in vain
//	                                                      └──► nothing comes for a while: in vain
type turns struct {
	p      *Process
	engine *nic.Engine
	rng    *rand.Rand
}

// mostUnpolled is how many frames in a row are taken though a poll was due, as internal/poller has it.
const mostUnpolled = 16

// othersPoll is one in how many calls of Settle finds that another caller polls.
const othersPoll = 8

// restTime is how often a sender that waits for room polls at least.
const restTime = 40 * time.Microsecond

// helperTime is within what time the NIC gets a turn that nothing asks for: internal/poller's helper looks as rarely.
const helperTime = 100 * time.Microsecond

// mine reports whether the process's NIC lives.
func (t *turns) mine() bool { return t.p.host.engine == t.engine && !t.p.gone && !t.p.over }

// stalled reports whether its host stands still: nothing that is refused then has failed.
func (t *turns) stalled() bool { return t.p.host.stalled > t.p.f.s.now }

func (t *turns) Enter() bool {
	if !t.mine() {
		return false
	}
	t.p.host.disturb()
	return true
}

func (t *turns) Leave(next clock.Time) {
	n := t.p.host
	if n.engine != t.engine {
		return
	}
	if next <= n.f.s.now {
		n.soon(noticeTime)
	} else {
		n.schedule(next)
	}
	if len(n.port.in) > 0 { // the process that waits for it polls, or the helper does
		n.soon(pick(t.rng, noticeTime, helperTime))
	}
}

func (t *turns) LeavePolling() { t.Poll() }

func (t *turns) Poll() {
	if n := t.p.host; n.engine == t.engine {
		n.engine.RingAll()
		n.schedule(n.poll())
	}
}

func (t *turns) Do(f func(now clock.Time)) {
	if n := t.p.host; n.engine == t.engine {
		n.disturb()
		f(n.f.s.now)
		n.soon(noticeTime)
	}
}

func (t *turns) Settle() (now clock.Time, polled, ok bool) {
	n := t.p.host
	now = n.f.s.now
	if !n.f.net.can.glance || t.rng.IntN(othersPoll) == 0 {
		return now, false, false
	}
	if n.pollAt > now.Add(leastTurn) {
		return now, false, true
	}
	if len(n.port.in) > 0 && n.unpolled < mostUnpolled {
		n.unpolled++
		return now, false, true
	}
	n.unpolled = 0
	next := n.poll()
	n.schedule(next)
	return now, true, next > now && !n.engine.Listening()
}

func (t *turns) Linger(begun clock.Time) (now clock.Time, ok bool) {
	n := t.p.host
	if len(n.port.in) > 0 {
		return begun, true
	}
	limit := n.f.s.jitter(pick(t.rng, noticeTime, 4*n.f.net.link.Latency, 16*n.f.net.link.Latency))
	l := &lingerer{task: t.p.running()}
	n.lingers = l
	defer func() {
		if n.lingers == l {
			n.lingers = nil
		}
		if len(n.port.in) > 0 { // also where the process ends here
			n.soon(helperTime)
		}
	}()
	n.f.s.after(limit, l.task, l.task.turn)
	l.task.park("a frame")
	return n.f.s.now, !l.disturbed && len(n.port.in) > 0 && t.mine() && !t.stalled()
}

func (t *turns) Pause() nic.Pause { return &pause{t: t, begun: t.p.f.s.now} }

// lingerer is a coroutine that has the engine and waits for a frame. It has lost the engine if it was disturbed.
type lingerer struct {
	task      *task
	disturbed bool
}

// disturb takes the engine away from the coroutine that waits inside, if there is one.
func (n *node) disturb() {
	if l := n.lingers; l != nil {
		n.lingers = nil
		l.disturbed = true
		n.f.s.resume(l.task)
	}
}

// arrived has the coroutine that waits inside take a frame that has come, or else gives the NIC a turn soon.
func (n *node) arrived() {
	if l := n.lingers; l != nil {
		n.f.s.resume(l.task)
		return
	}
	n.soon(noticeTime)
}

// pause is a sender's wait for room.
type pause struct {
	t     *turns
	begun clock.Time
}

func (w *pause) Rest() (last bool) {
	s := w.t.p.f.s
	w.t.p.running().sleep(s.jitter(restTime))
	return s.now.Sub(w.begun) > limits.RoomWait
}

func (w *pause) End() {}

func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }
