// Package interleave runs a few steps of concurrent code in every order that they can have.
//
//	source of a package ──rewrite──► the same with hooked sync and sync/atomic ──► a test binary of its own
//
//	            ┌── step ── step ── … side A (a coroutine)
//	scheduler ──┤                                           one runs at a time, to its next step;
//	            └── step ── step ── … side B                which comes next is a choice, and each is tried
//
// The shipped code knows nothing of it: what is tested is a copy of the source, made by the tests of this package, in which
// each atomic access and each lock is a step. A scenario starts two or three sides and says what must hold at the end.
// Explore runs it once for each order of their steps, depth first, each time from the beginning.
//
// A step is an atomic access; plain accesses belong to the step before them. With Options.Plain a store is followed by
// another step, so that plain accesses behind it are seen apart from it. The memory is sequentially consistent, as
// sync/atomic promises.
//
// A side that has to wait says for what (Block), and runs again when that is so. If no side can run, a wake-up is
// lost: that fails the test. Time stands still while sides run; it goes on when one spins (Yield), and to the next
// deadline when all wait.
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
	spun     bool        // it has called Yield, and nothing else has run since
	ready    func() bool // what it waits for; nil if it waits for nothing,
	deadline int64       // or for so long
}

const never = math.MaxInt64

// current is the side that runs; nil outside of one. One goroutine at a time runs, so it is a plain variable.
var current *side

// building is the schedule whose scenario is being set up.
var building *Run

// Spawn adds a side where the source starts a goroutine, while a scenario is set up.
func Spawn(name string, f func()) { building.Go(name, f) }

// stopped unwinds a side whose schedule has ended early; unwinding is set meanwhile, and nothing waits then.
type stopped struct{}

var unwinding bool

// Step marks a place between two of whose steps another side may run.
func Step() {
	s := current
	if s == nil {
		return
	}
	s.run.note()
	s.pause()
}

// After is Step behind a store, where the scenario asks for that.
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

// Block waits until ready is true, which must only load. Outside of a schedule ready must be true.
func Block(ready func() bool) { BlockFor(ready, -1) }

// BlockFor is Block that ends after d in any case; never if d is negative.
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

// Yield says that the side looks again and again: another runs first, if one can, and time passes.
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

// Running reports whether the caller is a side.
func Running() bool { return current != nil }

// spin is how much time a Yield takes.
const spin = 10 * time.Microsecond

// Now is the time of the schedule, from its beginning.
func Now() time.Duration {
	if s := current; s != nil {
		return time.Duration(s.run.now)
	}
	return 0
}

// defect is the mistake that the environment asks for, of those that were compiled in.
var defect = os.Getenv(DefectVariable)

// DefectVariable is the environment variable that names a mutation.
const DefectVariable = "WEFT_ORDER_DEFECT"

// Defect reports whether the named mutation is switched on.
func Defect(name string) bool { return defect == name }

// start makes a coroutine of f.
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
