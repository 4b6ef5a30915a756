package sim

import (
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
)

// turns lends the NIC to the straight way of a process between two turns of the scheduler. It does
// in virtual time the work that package poller does in real time.
//
//	Enter ─► Settle ─► Linger: the coroutine parks
//	                     ├─► a frame arrives: it resumes before the NIC's turn
//	                     ├─► the NIC has a turn, or another caller enters: Linger fails
//	                     └─► no frame comes for a while: Linger fails
type turns struct {
	p      *Process
	engine *nic.Engine
	rng    *rand.Rand
}

// mostUnpolled is the largest number of frames in a row that are taken while a poll is due, as in
// package poller.
const mostUnpolled = 16

// Settle finds that another caller polls with probability 1/othersPoll.
const othersPoll = 8

// restTime is the longest time between two polls of a sender that waits for room.
const restTime = 40 * time.Microsecond

// helperTime is the longest time until a turn that no caller asks for. In package poller a helper
// takes such turns.
const helperTime = 100 * time.Microsecond

// mine reports whether the process still has its first NIC.
func (t *turns) mine() bool { return t.p.host.engine == t.engine && !t.p.gone && !t.p.over }

// stalled reports whether the host stands still. A call that is refused in that time has not
// failed.
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
	if len(n.port.in) > 0 { // the receiver polls, or the helper does
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
		if len(n.port.in) > 0 { // even if the process ends here
			n.soon(helperTime)
		}
	}()
	n.f.s.after(limit, l.task, l.task.turn)
	l.task.park("a frame")
	return n.f.s.now, !l.disturbed && len(n.port.in) > 0 && t.mine() && !t.stalled()
}

func (t *turns) Pause() nic.Pause { return &pause{t: t, begun: t.p.f.s.now} }

// lingerer is a coroutine that holds the engine and waits for a frame. If disturbed, it has lost
// the engine.
type lingerer struct {
	task      *task
	disturbed bool
}

// disturb takes the engine from the coroutine that lingers, if there is one.
func (n *node) disturb() {
	if l := n.lingers; l != nil {
		n.lingers = nil
		l.disturbed = true
		n.f.s.resume(l.task)
	}
}

// arrived resumes the coroutine that lingers, which takes the frame. Without one, it schedules a
// turn.
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
