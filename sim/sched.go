package sim

import (
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// sched is virtual time: a queue of events and the instant of the latest one. Time stands still while something
// happens, and between two events nothing does.
type sched struct {
	now   clock.Time
	queue queue
	rng   *rand.Rand // ties, turns and wake-ups
	steps uint64     // events that happened
	limit clock.Time // of the present run
	trace uint64     // hash of all of them and of every frame

	current *task    // the coroutine that runs, nil between tasks
	foreign []*task  // parked tasks whose context is not one of ours
	lent    []*timed // our contexts whose parent is not one of ours
}

// stream makes a generator that depends on the seed and on nothing else that draws from it.
func stream(seed, n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15*(n+1))) }

func newSched(seed uint64) *sched {
	return &sched{rng: stream(seed, 0), trace: seed}
}

// clock is the present instant, for callers that want a function.
func (s *sched) clock() clock.Time { return s.now }

// push makes what happen at an instant, which must not have passed.
func (s *sched) push(at clock.Time, what happening, n uint64) {
	if at < s.now {
		panic("sim: an event is pushed into the past")
	}
	s.queue.push(event{at: at, tie: s.rng.Uint64(), n: n, what: what})
}

// after makes what happen when d has passed.
func (s *sched) after(d time.Duration, what happening, n uint64) { s.push(s.now.Add(d), what, n) }

// jitter draws a duration below limit.
func (s *sched) jitter(limit time.Duration) time.Duration {
	hi, _ := bits.Mul64(s.rng.Uint64(), uint64(limit))
	return time.Duration(hi)
}

// step makes the next event happen, unless it lies beyond limit. It reports whether there was one.
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

// passTo lets time pass to an instant if nothing happens before or at it, and the run goes on beyond it. It saves a NIC
// that is alone in being busy the way through the queue.
func (s *sched) passTo(at clock.Time) bool {
	if at > s.limit || s.queue.len() > 0 && s.queue.heap[0].at <= at {
		return false
	}
	s.now = max(s.now, at)
	s.steps++
	return true
}

// note mixes a value into the trace hash. Two runs of one seed must note the same values in the same order.
func (s *sched) note(v uint64) {
	s.trace = bits.RotateLeft64((s.trace^v)*0x9fb21c651e98df25, 29)
}

// call is a function as an event.
type call func()

func (c call) happen(uint64) { c() }
