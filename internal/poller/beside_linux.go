package poller

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// A loop and its process that share a core take turns, and a turn of the process takes 3 µs with
// both switches: as long as six looks at a link. So it matters that the loop knows whether the
// process has anything to do. The process says where it waits, and the loop knows whether it has
// told the process something:
//
//	the one process that is listened to  the loop after an empty poll             after work
//	───────────────────────────────────  ───────────────────────────────────────  ───────────────
//	waits at this processor              looks on for lookFor, then lets it run   as after an
//	                                     once; at once if it was told something   empty poll
//	waits at another, others run here    moves to it; else as below               lets others run
//	does not wait; or there are several  lets others run after every second look  lets others run
//
// The first line is for two threads alone on a core: if two daemons on one core both look on, a
// round trip takes half as long again. A turn of a process that finds nothing is short. So after
// two longer turns in a row, other threads must be here, and for a while the loop acts as in the
// last line.
//
// The kernel does not bring the two onto one core: it puts two daemons onto one core just as
// readily, and the processes of both onto the other. Then each message waits for turns of
// threads that have nothing to do with it.

const (
	// lookFor is how long a loop whose process waits on the same core looks for frames between
	// two turns of the process. It outlasts the rest of a small round trip, and is the most that
	// the loop takes from threads that it does not know.
	lookFor = 16 * time.Microsecond

	// shortTurn is more than the turn of a process that finds nothing, with both switches, and
	// less than such a turn and one of another loop.
	shortTurn = 7 * time.Microsecond

	// crowdedFor is how long the loop assumes that other threads are here: to find out takes
	// some 50 µs.
	crowdedFor = time.Millisecond

	// moveEvery is the least time between two moves of a loop to its process. A move takes some
	// 10 µs, and the kernel moves others in turn.
	moveEvery = time.Millisecond
)

// neighbours is a loop's knowledge of the threads on its core.
type neighbours struct {
	told    bool       // its process was told something since the loop last let others run
	left    clock.Time // when it let its process run, which had nothing to do; 0 if it has not
	back    clock.Time // when it had its core back; 0 means with the next poll
	long    bool       // in the last such turn more than the process ran
	crowded clock.Time // until then others are assumed to be here
	stay    clock.Time // the loop does not move before
}

// returned notes that the loop has its core back.
func (t *neighbours) returned(now clock.Time) {
	t.back = now
	if t.left == 0 {
		return
	}
	long := now.Sub(t.left) >= shortTurn
	if long && t.long {
		t.crowded = now.Add(crowdedFor)
	}
	t.left, t.long = 0, long
}

// beside reports whether the loop's only process waits at the loop's own processor, and no other
// thread is known to run there.
func (l *Loop) beside(now clock.Time) bool {
	at := l.engine.WaitsAt()
	return at >= 0 && now >= l.crowded && at == l.processor()
}

// heard notes whether the poll has told the process something. The note stays until others run,
// whatever polls come in between.
func (l *Loop) heard() { l.told = l.told || l.engine.Told() }

// pass lets others run after a poll that found work, if they have something to do.
func (l *Loop) pass(now clock.Time) {
	if l.beside(now) && !l.told {
		if now.Sub(l.back) < lookFor {
			return
		}
		l.left = now
	}
	l.pace.Pass(now, l.yield, Now)
	l.back, l.told = 0, false
}

// lookOn reports whether the loop, after a poll that found nothing, should look again instead of
// letting others run.
func (l *Loop) lookOn(now clock.Time) bool {
	if l.beside(now) {
		switch {
		case l.told:
			return false
		case now.Sub(l.back) < lookFor:
			return true
		}
		l.left = now
		return false
	}
	l.join(now)
	l.looks++
	return l.looks%looksPerYield != 0
}

// join moves the loop to its process, which waits elsewhere, if other threads run here. If none
// does, the loop and the process keep a core each.
func (l *Loop) join(now clock.Time) {
	if now < l.stay || !l.shares() {
		return
	}
	if at := l.engine.WaitsAt(); at >= 0 && at != l.processor() {
		l.stay = now.Add(moveEvery)
		l.move(at)
	}
}
