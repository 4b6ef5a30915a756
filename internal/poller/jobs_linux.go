package poller

import (
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/clock"
)

// jobs are what others want done between two polls. The loop does them itself, one a turn: were they done by their own
// threads under a lock, the kernel could take the processor from one that has it, for milliseconds, and every process of the
// NIC would wait. A caller that asks for many is not to slow the others down either: while there is other work, jobs have a share of
// the loop's time.
type jobs struct {
	queued atomic.Int32 // len(queue), to be read without the lock
	rested clock.Time   // from when on a busy loop does another

	mu      sync.Mutex
	running bool // the loop does them; otherwise the caller that wants something done does it
	queue   []job
}

type job struct {
	f    func(now clock.Time)
	done chan struct{}
}

// jobShare is how many times as long as a job took a busy loop does none.
const jobShare = 4

// Do runs f between two polls, and returns when it has run. f must be short: nothing moves meanwhile.
func (l *Loop) Do(f func(now clock.Time)) {
	l.jobs.mu.Lock()
	if !l.running {
		defer l.jobs.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		f(Now())
		return
	}
	done := make(chan struct{})
	l.queue = append(l.queue, job{f, done})
	l.queued.Store(int32(len(l.queue)))
	l.jobs.mu.Unlock()
	l.wake()
	<-done
}

// open has jobs come to the loop from now on, and finish has them come no longer, and does what is left.
func (l *Loop) open() {
	l.jobs.mu.Lock()
	defer l.jobs.mu.Unlock()
	l.running = true
}

func (l *Loop) finish() {
	l.jobs.mu.Lock()
	defer l.jobs.mu.Unlock()
	l.running = false
	for _, j := range l.queue {
		j.f(Now())
		close(j.done)
	}
	l.queue = nil
	l.queued.Store(0)
}

// job does the oldest job, unless a busy loop has just done one, and reports whether it did.
func (l *Loop) job(now clock.Time, busy bool) bool {
	if l.queued.Load() == 0 || busy && now < l.rested {
		return false
	}
	l.jobs.mu.Lock()
	j := l.queue[0]
	l.queue[0] = job{}
	l.queue = l.queue[1:]
	l.queued.Store(int32(len(l.queue)))
	l.jobs.mu.Unlock()
	begin := Now()
	j.f(begin)
	close(j.done)
	end := Now()
	l.rested = end.Add(jobShare * end.Sub(begin))
	return true
}
