package interleave

import "testing"

// paths runs scenario once for each schedule, and counts the schedules by their outcome.
func paths(o Options, scenario func(r *Run)) (ends map[string]int) {
	ends = map[string]int{}
	for chosen := []choice(nil); ; {
		r, why := runOnce(o, scenario, chosen, false)
		ends[why]++
		if chosen = successor(r.chosen); chosen == nil {
			return ends
		}
	}
}

func steps(n int) func() {
	return func() {
		for range n {
			Step()
		}
	}
}

func TestEachOrderOfStepsIsTriedOnce(t *testing.T) {
	// A side with n steps has n+1 turns: up to the first step, and after each. For a and b such
	// turns, there are (a+b)!/(a!·b!) orders.
	for _, c := range []struct{ a, b, bound, want int }{{0, 0, 0, 2}, {1, 1, 0, 6}, {2, 1, 0, 10}, {2, 3, 0, 35}, {2, 2, 1, 6}} {
		ends := paths(Options{Preemptions: c.bound}, func(r *Run) {
			r.Go("a", steps(c.a))
			r.Go("b", steps(c.b))
		})
		if len(ends) != 1 || ends[""] != c.want {
			t.Errorf("%+v: %v", c, ends)
		}
	}
}

func TestALostUpdateIsFoundAndALostWakeUpIsNamed(t *testing.T) {
	ends := paths(Options{}, func(r *Run) {
		n := 0
		add := func() {
			Step()
			was := n
			Step()
			n = was + 1
		}
		r.Go("a", add)
		r.Go("b", add)
		r.Go("c", func() { Block(func() bool { return n == 2 }) })
	})
	if lost := ends["a wake-up is lost: [a has ended b has ended c waits]"]; lost == 0 || ends[""] == 0 || len(ends) != 2 {
		t.Errorf("schedules end so: %v", ends)
	}
}

func TestTimePassesWhenAllWaitAndWhereOneSpins(t *testing.T) {
	ends := paths(Options{}, func(r *Run) {
		done := false
		r.Go("sleeper", func() {
			BlockFor(func() bool { return false }, 7*spin)
			if Now() < 7*spin {
				r.Failf("woken at %v", Now())
			}
			done = true
		})
		r.Go("spinner", func() {
			for !done {
				Yield()
			}
		})
	})
	if ends[""] == 0 || len(ends) != 1 {
		t.Errorf("schedules end so: %v", ends)
	}
}

func TestALoopWithoutEndIsFound(t *testing.T) {
	if _, why := runOnce(Options{}, func(r *Run) { r.Go("loop", steps(2*mostSteps)) }, nil, false); why == "" {
		t.Error("a side that never ends has ended")
	}
}
