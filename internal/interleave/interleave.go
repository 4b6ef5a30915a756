// Package interleave runs a few steps of concurrent code in every possible order.
//
//	package source ──rewrite─► the same with hooked sync and sync/atomic ─► a separate test binary
//
//	            ┌── step ── step ── … side A (a coroutine)
//	scheduler ──┤                                     one runs at a time, to its next step;
//	            └── step ── step ── … side B          the next side is a choice, and each is tried
//
// The shipped code contains nothing of this. The tests of this package make a copy of the source
// in which each atomic access and each lock is a step, and test this copy. A scenario starts two
// or three sides and states the conditions that must hold at the end. Explore runs it once for
// each order of their steps, depth first, each time from the beginning.
//
// A step is an atomic access. Plain accesses belong to the step before them. With Options.Plain,
// a store is followed by another step, so that plain accesses after the store are separate from
// it. The memory is sequentially consistent, as sync/atomic promises.
//
// A side that must wait states its condition (Block), and runs again when the condition holds. If
// no side can run, a wake-up is lost: that fails the test. Time stands still while sides run. It
// advances when a side spins (Yield), and it advances to the next deadline when all sides wait.
package interleave

import (
	"fmt"
	"iter"
	"math"
	"os"
	"time"
)

// side is one of the coroutines of a scenario.
type side struct {
	name  string
	run   *Run
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	over     bool
	spun     bool        // it has called Yield, and no other side has run since
	ready    func() bool // the condition for which it waits; nil if it does not wait
	deadline int64       // time at which its wait ends in any case
}

const never = math.MaxInt64

// current is the side that runs, or nil outside of a schedule. Only one goroutine runs at a time,
// so it is a plain variable.
var current *side

// building is the schedule whose scenario is being set up.
var building *Run

// Spawn adds a side in place of a goroutine of the source, while a scenario is set up.
func Spawn(name string, f func()) { building.Go(name, f) }

// stopped unwinds a side whose schedule has ended early. Meanwhile unwinding is true, and no side
// waits.
type stopped struct{}

var unwinding bool

// Step marks a place at which another side may run.
func Step() {
	s := current
	if s == nil {
		return
	}
	s.run.note()
	s.pause()
}

// After is Step after a store, if the scenario requests it.
func After() {
	if s := current; s != nil && s.run.plain {
		s.pause()
	}
}

func (s *side) pause() {
	if !s.yield(struct{}{}) {
		panic(stopped{})
	}
}

// Block waits until ready returns true. The function ready must only load. Outside of a schedule,
// ready must return true.
func Block(ready func() bool) { BlockFor(ready, -1) }

// BlockFor is Block that also ends after d. If d is negative, it ends only when ready returns
// true.
func BlockFor(ready func() bool, d time.Duration) {
	s := current
	if s == nil {
		if !unwinding && !ready() {
			panic("interleave: waits outside of a schedule for what nothing else can bring about")
		}
		return
	}
	s.ready, s.deadline = ready, never
	if d >= 0 {
		s.deadline = s.run.now + int64(d)
	}
	s.run.note()
	s.pause()
	s.ready = nil
}

// Yield says that the side polls: another side runs first, if one can, and time passes.
func Yield() {
	s := current
	if s == nil {
		return
	}
	s.run.now += int64(spin)
	s.spun = true
	s.run.note()
	s.pause()
}

// Running reports whether a side calls it.
func Running() bool { return current != nil }

// spin is the time that a Yield takes.
const spin = 10 * time.Microsecond

// Now returns the time since the beginning of the schedule.
func Now() time.Duration {
	if s := current; s != nil {
		return time.Duration(s.run.now)
	}
	return 0
}

// defect is the mutation that the environment selects among those that are compiled in.
var defect = os.Getenv(DefectVariable)

// DefectVariable is the environment variable that names a mutation.
const DefectVariable = "WEFT_ORDER_DEFECT"

// Defect reports whether the named mutation is switched on.
func Defect(name string) bool { return defect == name }

// start makes a coroutine from f.
func (s *side) start(f func()) {
	s.next, s.stop = iter.Pull(func(yield func(struct{}) bool) {
		s.yield = yield
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(stopped); !ok {
					panic(r)
				}
			}
		}()
		f()
	})
}

// step runs the side to its next step.
func (s *side) step() {
	current = s
	defer func() { current = nil }()
	if _, ok := s.next(); !ok {
		s.over = true
	}
}

// able reports whether the side can run.
func (s *side) able() bool {
	return !s.over && (s.ready == nil || s.deadline <= s.run.now || s.ready())
}

func (s *side) String() string {
	switch {
	case s.over:
		return s.name + " has ended"
	case s.ready != nil && s.deadline < never:
		return fmt.Sprintf("%s waits until %v", s.name, time.Duration(s.deadline))
	case s.ready != nil:
		return s.name + " waits"
	}
	return s.name + " runs"
}
