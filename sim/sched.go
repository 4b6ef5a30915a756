package sim

import (
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// sched is virtual time: a queue of events and the instant of the latest one. Time stands still
// during an event, and nothing happens between two events.
type sched struct {
	now   clock.Time
	queue queue
	rng   *rand.Rand // draws ties, turns and wake-ups
	steps uint64     // events so far
	limit clock.Time // end of the present run
	trace uint64     // hash of all events and frames

	current *task    // the running coroutine; nil between tasks
	foreign []*task  // parked tasks with a context that is not ours
	lent    []*timed // our contexts with a parent that is not ours
}

// stream returns generator n of a seed. It is independent of the seed's other generators.
func stream(seed, n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15*(n+1))) }

func newSched(seed uint64) *sched {
	return &sched{rng: stream(seed, 0), trace: seed}
}

// clock returns the present instant.
func (s *sched) clock() clock.Time { return s.now }

// push schedules what at an instant. It panics if the instant has passed.
func (s *sched) push(at clock.Time, what happening, n uint64) {
	if at < s.now {
		panic("sim: an event is pushed into the past")
	}
	s.queue.push(event{at: at, tie: s.rng.Uint64(), n: n, what: what})
}

// after schedules what after d.
func (s *sched) after(d time.Duration, what happening, n uint64) { s.push(s.now.Add(d), what, n) }

// jitter draws a duration below limit.
func (s *sched) jitter(limit time.Duration) time.Duration {
	hi, _ := bits.Mul64(s.rng.Uint64(), uint64(limit))
	return time.Duration(hi)
}

// step runs the next event, unless it lies beyond limit. It reports whether it ran one.
func (s *sched) step(limit clock.Time) bool {
	s.limit = limit
	if s.queue.len() == 0 || s.queue.heap[0].at > limit {
		return false
	}
	e := s.queue.pop()
	s.now = e.at
	s.steps++
	e.what.happen(e.n)
	return true
}

// passTo moves time to an instant if no event comes before or at it and the run does not end
// first. It reports whether it moved time. So a NIC that is the only busy one need not go through
// the queue.
func (s *sched) passTo(at clock.Time) bool {
	if at > s.limit || s.queue.len() > 0 && s.queue.heap[0].at <= at {
		return false
	}
	s.now = max(s.now, at)
	s.steps++
	return true
}

// note mixes a value into the trace hash. Two runs of one seed must note the same values in the
// same order.
func (s *sched) note(v uint64) {
	s.trace = bits.RotateLeft64((s.trace^v)*0x9fb21c651e98df25, 29)
}

// call is a function as an event.
type call func()

func (c call) happen(uint64) { c() }
