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

// Options say how far Explore goes. The zero value tries every order of all steps.
type Options struct {
	Plain bool // a store is followed by a step of its own

	// Preemptions bounds how often a side that could go on is interrupted, where the number of all schedules is too
	// large; 0 is no bound. A side that waits, spins or ends is not interrupted.
	Preemptions int

	// Delays bounds how often a schedule deviates from the plainest one, in which a side goes on for as long as it can and then the next
	// one does, in their order, and no time passes meanwhile; 0 is no bound. It is for three sides and more, which may be chosen from wherever one waits.
	Delays int

	// Least is how many schedules there must be: fewer mean that the scenario does not do what it should.
	Least int
}

// mostSteps bounds one schedule: more are a loop without end.
const mostSteps = 20000

// Run is one schedule of a scenario.
type Run struct {
	plain  bool
	sides  []*side
	checks []func() error
	now    int64

	list    []*side // that are able; kept for the next
	steps   int
	last    *side
	bound   int // of preemptions or delays, and what is spent of it
	spent   int
	delays  bool     // every deviation counts, not preemptions alone
	chosen  []choice // from the beginning
	depth   int
	tracing bool
	trace   []string
}

// choice is one of several sides at a place of a schedule.
type choice struct{ taken, of int }

// Go adds a side. It runs when the scenario has returned.
func (r *Run) Go(name string, f func()) {
	s := &side{name: name, run: r, deadline: never}
	s.start(f)
	r.sides = append(r.sides, s)
}

// Check adds what must hold when all sides have ended.
func (r *Run) Check(f func() error) { r.checks = append(r.checks, f) }

// failure is what a side or a check found.
type failure struct{ why string }

// Failf ends the schedule and fails the test, from within a side.
func (r *Run) Failf(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

// Now is the time of the schedule, from its beginning.
func (r *Run) Now() time.Duration { return time.Duration(r.now) }

// Explore runs scenario once for each schedule. In a binary whose source was not rewritten there are no steps, and the test is
// skipped: the tests of this package run it.
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

// successor is the next path through the tree of choices, depth first; nil behind the last.
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

// runOnce runs the schedule that begins with chosen and then always goes on with the first choice. why says what is wrong.
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

// outcome judges a schedule in which no side can go on.
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

// pick chooses the side that runs next; nil if none can. When all wait, time goes on to the next deadline.
func (r *Run) pick() *side {
	able := r.able()
	if len(able) == 0 && r.advance() {
		able = r.able()
	}
	if len(able) == 0 {
		return nil
	}
	if s := r.sleeper(); s != nil && r.delays {
		able = append(able, s) // nothing says that time stands still while a side goes on
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

// sleeper is the side that sleeps until the earliest deadline; nil if none has one.
func (r *Run) sleeper() (first *side) {
	for _, s := range r.sides {
		if !s.over && s.ready != nil && s.deadline < never && !s.able() && (first == nil || s.deadline < first.deadline) {
			first = s
		}
	}
	return first
}

// able lists the sides that can run: the last one if it goes on, then those behind it in their order. One that spins runs only if no
// other can.
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

// choose takes the choice of the schedule at this place, or the first.
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
			r.trace = append(r.trace, fmt.Sprintf("  %-10s %s, %s:%d", current.name, name, f.File[strings.LastIndex(f.File, "/")+1:], f.Line))
			return
		}
	}
}
