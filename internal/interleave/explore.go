package interleave

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Options limits the work of Explore. The zero value tries every order of all steps.
type Options struct {
	Plain bool // a store is followed by a separate step

	// Preemptions limits the number of interruptions of sides that could continue, for scenarios
	// with too many schedules. 0 means no limit. If a side waits, spins or ends, that is no
	// interruption.
	Preemptions int

	// Delays limits the number of deviations from the simplest schedule. In that schedule, a side
	// runs as long as it can, then the next side runs, in their order, and no time passes
	// meanwhile. 0 means no limit. Delays suits scenarios with three or more sides, because a
	// choice arises wherever a side waits.
	Delays int

	// Least is the minimum number of schedules. If there are fewer, the scenario does not do what
	// it should.
	Least int
}

// mostSteps limits one schedule. A longer one is an endless loop.
const mostSteps = 20000

// Run is one schedule of a scenario.
type Run struct {
	plain  bool
	sides  []*side
	checks []func() error
	now    int64

	list    []*side // sides that can run; the slice is reused
	steps   int
	last    *side
	bound   int // limit of preemptions or delays
	spent   int
	delays  bool     // every deviation counts, not only preemptions
	chosen  []choice // choices from the beginning
	depth   int
	tracing bool
	trace   []string
}

// choice is the choice of one among several sides at a place of a schedule.
type choice struct{ taken, of int }

// Go adds a side. It runs after the scenario has returned.
func (r *Run) Go(name string, f func()) {
	s := &side{name: name, run: r, deadline: never}
	s.start(f)
	r.sides = append(r.sides, s)
}

// Check adds a condition that must hold when all sides have ended.
func (r *Run) Check(f func() error) { r.checks = append(r.checks, f) }

// failure is an error that a side or a check found.
type failure struct{ why string }

// Failf ends the schedule and fails the test. A side calls it.
func (r *Run) Failf(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

// Now returns the time since the beginning of the schedule.
func (r *Run) Now() time.Duration { return time.Duration(r.now) }

// Explore runs scenario once for each schedule. In a binary without the rewritten sources there
// are no steps, so Explore skips the test. The tests of this package build the rewritten binary
// and run it.
func Explore(t *testing.T, o Options, scenario func(r *Run)) {
	t.Helper()
	if !Instrumented {
		t.Skip("this binary has no steps: TestEverySchedule of internal/interleave runs a rewritten one")
	}
	schedules, steps := 0, 0
	for chosen := []choice(nil); ; {
		r, why := runOnce(o, scenario, chosen, false)
		schedules++
		steps += r.steps
		if why != "" {
			again, _ := runOnce(o, scenario, r.chosen[:r.depth], true)
			t.Fatalf("schedule %d, after %d steps: %s\n%s", schedules, r.steps, why, strings.Join(again.trace, "\n"))
		}
		if chosen = successor(r.chosen); chosen == nil {
			break
		}
	}
	if schedules < o.Least {
		t.Errorf("%d schedules, expected %d and more", schedules, o.Least)
	}
	bound := "all of them"
	switch {
	case o.Delays > 0:
		bound = fmt.Sprintf("those with at most %d delays", o.Delays)
	case o.Preemptions > 0:
		bound = fmt.Sprintf("those with at most %d preemptions", o.Preemptions)
	}
	t.Logf("%d schedules of %d steps on average: %s", schedules, steps/schedules, bound)
}

// successor returns the next path through the tree of choices, depth first, or nil after the
// last.
func successor(c []choice) []choice {
	for n := len(c); n > 0; n-- {
		if last := c[n-1]; last.taken+1 < last.of {
			next := append([]choice(nil), c[:n]...)
			next[n-1].taken++
			return next
		}
	}
	return nil
}

// runOnce runs the schedule that begins with chosen and then always takes the first choice. why
// describes a failure.
func runOnce(o Options, scenario func(r *Run), chosen []choice, tracing bool) (r *Run, why string) {
	r = &Run{plain: o.Plain, chosen: append([]choice(nil), chosen...), tracing: tracing}
	r.bound, r.delays = cmp.Or(o.Delays, o.Preemptions), o.Delays > 0
	defer r.stop()
	defer func() {
		if e := recover(); e != nil {
			f, ok := e.(failure)
			if !ok {
				panic(e)
			}
			why = f.why
		}
	}()
	building = r
	scenario(r)
	building = nil
	for r.steps < mostSteps {
		s := r.pick()
		if s == nil {
			return r, r.outcome()
		}
		if s != r.last && r.last != nil {
			r.last.spun = false
		}
		r.last = s
		r.steps++
		s.step()
	}
	return r, fmt.Sprintf("no end after %d steps: %v", r.steps, r.sides)
}

// outcome judges a schedule in which no side can continue.
func (r *Run) outcome() string {
	for _, s := range r.sides {
		if !s.over {
			return fmt.Sprintf("a wake-up is lost: %v", r.sides)
		}
	}
	for _, check := range r.checks {
		if err := check(); err != nil {
			return err.Error()
		}
	}
	return ""
}

// stop ends the sides that have not ended.
func (r *Run) stop() {
	unwinding = true
	defer func() { unwinding = false }()
	for _, s := range r.sides {
		s.stop()
	}
}

// pick chooses the side that runs next, or returns nil if none can run. If all sides wait, time
// advances to the next deadline.
func (r *Run) pick() *side {
	able := r.able()
	if len(able) == 0 && r.advance() {
		able = r.able()
	}
	if len(able) == 0 {
		return nil
	}
	if s := r.sleeper(); s != nil && r.delays {
		able = append(able, s) // time may pass while a side runs
	}
	costs := r.bound > 0 && (r.delays || able[0] == r.last)
	of := len(able)
	if costs && r.delays {
		of = min(of, r.bound-r.spent+1)
	} else if costs && r.spent == r.bound {
		of = 1
	}
	if of == 1 {
		return able[0]
	}
	k := r.choose(of)
	switch {
	case costs && r.delays:
		r.spent += k
	case costs && k > 0:
		r.spent++
	}
	if s := able[k]; !s.able() {
		r.now = s.deadline
	}
	return able[k]
}

// sleeper returns the side that sleeps until the earliest deadline, or nil if no side has a
// deadline.
func (r *Run) sleeper() (first *side) {
	for _, s := range r.sides {
		if !s.over && s.ready != nil && s.deadline < never && !s.able() &&
			(first == nil || s.deadline < first.deadline) {
			first = s
		}
	}
	return first
}

// able lists the sides that can run: the last one if it continues, then the sides after it in
// their order. A side that spins runs only if no other can.
func (r *Run) able() []*side {
	able := r.list[:0]
	l := r.last
	if l != nil && !l.spun && l.able() {
		able = append(able, l)
	}
	at := slices.Index(r.sides, l) + 1
	for k := range r.sides {
		if s := r.sides[(at+k)%len(r.sides)]; s != l && s.able() {
			able = append(able, s)
		}
	}
	if len(able) == 0 && l != nil && l.spun && l.able() {
		able = append(able, l)
	}
	r.list = able
	return able
}

// advance moves time to the earliest deadline.
func (r *Run) advance() bool {
	s := r.sleeper()
	if s != nil {
		r.now = s.deadline
	}
	return s != nil
}

// choose returns the schedule's choice at this place, or the first one.
func (r *Run) choose(of int) int {
	if r.depth == len(r.chosen) {
		r.chosen = append(r.chosen, choice{0, of})
	}
	c := r.chosen[r.depth]
	if c.of != of {
		panic(fmt.Sprintf("interleave: a schedule differs when it is run again: %d sides can run, not %d", of, c.of))
	}
	r.depth++
	return c.taken
}

// note adds the place of a step to the trace.
func (r *Run) note() {
	if !r.tracing {
		return
	}
	var pcs [12]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		name := f.Function[strings.LastIndex(f.Function, "/")+1:]
		if !strings.Contains(f.Function, "internal/interleave") || !more {
			r.trace = append(r.trace, fmt.Sprintf("  %-10s %s, %s:%d", current.name, name,
				f.File[strings.LastIndex(f.File, "/")+1:], f.Line))
			return
		}
	}
}
