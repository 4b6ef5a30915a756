package poller

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// A loop and its process that share a core take turns, and to go to the other and back takes 3 µs: as long as six looks at a link. So it
// matters that the loop knows whether the process has anything to do. It says where it waits, and is told what it waits for:
//
//	the one process that is listened to      the loop, when it found nothing                  when it found work
//	────────────────────────────────────     ────────────────────────────────────────────     ─────────────────────────
//	waits at this processor                  looks on for lookFor, then lets it run once;     likewise
//	                                         at once if it was told something
//	waits at another, and others run here    moves to it; else as below                       lets others run
//	does not wait; or there are several      lets others run after every second look          lets others run
//
// The first line is for two alone: two daemons on one core that both look on make a round trip last half as long again. A turn of a process
// that finds nothing is short; so after two turns in a row that were not, others are here, and for a while the loop does as in the last line.
//
// That the two are on one core is not for the kernel to find out: it has two daemons share a core as gladly, and the processes of both the
// other. Then each message waits for turns of threads that it does not concern.

const (
	// lookFor is how long a loop whose process waits beside it looks for frames between two turns of the process. It outlasts the rest of a
	// small round trip, and is what the loop takes at most from others that it does not know of.
	lookFor = 16 * time.Microsecond

	// shortTurn is more than a process that finds nothing takes, with the way there and back, and less than another loop takes besides.
	shortTurn = 7 * time.Microsecond

	// crowdedFor is how long others are believed to be here: to find out takes some 50 µs.
	crowdedFor = time.Millisecond

	// moveEvery is how often a loop may move to its process, at most. A move takes some 10 µs, and the kernel moves others in turn.
	moveEvery = time.Millisecond
)

// neighbours is what a loop knows of the threads on its core.
type neighbours struct {
	told    bool       // its process has been told something since the loop last let others run
	left    clock.Time // when it let its process run, which had nothing to do; 0: it has not
	back    clock.Time // when it had its core back; 0: with the next poll
	long    bool       // the last such turn was none of the process alone
	crowded clock.Time // until then others are believed to be here
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

// beside reports whether the loop's only process waits at the loop's own processor, and nothing else is known to run there.
func (l *Loop) beside(now clock.Time) bool {
	at := l.engine.WaitsAt()
	return at >= 0 && now >= l.crowded && at == l.processor()
}

// heard notes whether the poll has told the process something. It stays so until others run, whatever polls come in between.
func (l *Loop) heard() { l.told = l.told || l.engine.Told() }

// pass lets others run after a poll that found work, if there is something for them to do.
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

// lookOn reports whether the loop, which found nothing, had better look again than let others run.
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

// join moves the loop to its process, which waits elsewhere, if others run here. Where none does, each of the two had better keep
// its core.
func (l *Loop) join(now clock.Time) {
	if now < l.stay || !l.shares() {
		return
	}
	if at := l.engine.WaitsAt(); at >= 0 && at != l.processor() {
		l.stay = now.Add(moveEvery)
		l.move(at)
	}
}
