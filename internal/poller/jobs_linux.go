package poller

import (
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/clock"
)

// jobs are calls that other goroutines want to run between two polls. The loop runs them itself,
// one a turn. If their own threads ran them under a lock, the kernel could take the processor
// from the holder, for milliseconds, and every process of the NIC would wait. Nor may a caller
// with many jobs slow the others down: while there is other work, jobs have a share of the
// loop's time.
type jobs struct {
	queued atomic.Int32 // len(queue), to be read without the lock
	rested clock.Time   // from then on a busy loop runs another

	mu      sync.Mutex
	running bool // the loop runs them; otherwise their callers do
	queue   []job
}

type job struct {
	f    func(now clock.Time)
	done chan struct{}
}

// jobShare is the pause of a busy loop after a job, as a multiple of the job's time.
const jobShare = 4

// Do runs f between two polls, and returns when it has run. f must be short: nothing else is
// processed meanwhile.
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

// open directs jobs to the loop from now on. finish ends that, and runs the remaining jobs.
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

// job runs the oldest job, unless a busy loop has just run one, and reports whether it did.
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
