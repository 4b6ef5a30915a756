package poller

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
)

// neighbour is an engine of one process that says where it waits.
type neighbour struct {
	fakeEngine
	at   int
	told bool
}

func (e *neighbour) WaitsAt() int { return e.at }
func (e *neighbour) Told() bool   { return e.told }

// standing is a loop on processor 1 that is not run, and a record of its effects on others.
type standing struct {
	*Loop
	others bool // run on its core
	yields int
	moves  []int
}

func newStanding(t *testing.T, e Engine) *standing {
	t.Helper()
	l, err := NewLoop(e, LoopConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &standing{Loop: l}
	l.yield = func() { s.yields++ }
	l.shares = func() bool { return s.others }
	l.processor = func() int { return 1 }
	l.move = func(p int) { s.moves = append(s.moves, p) }
	return s
}

func TestALoopLooksOnWhileItsProcessWaitsBesideIt(t *testing.T) {
	l := newStanding(t, &neighbour{at: 1})
	for l.back = 1000; l.back < 5000; l.back++ {
		if !l.lookOn(l.back) || !l.lookOn(l.back.Add(lookFor-1)) {
			t.Fatal("lets the process run, which has nothing to do")
		}
		if l.lookOn(l.back.Add(lookFor)) {
			t.Fatal("never lets the process run")
		}
	}
}

func TestALoopLetsOthersRunUnlessItsProcessWaitsBesideIt(t *testing.T) {
	for _, at := range []int{-1, 0, 2} {
		l := newStanding(t, &neighbour{at: at})
		on := 0
		for range 100 {
			if l.lookOn(l.back) {
				on++
			}
		}
		if on != 100-100/looksPerYield {
			t.Errorf("process at %d: looks on %d times of 100; expected to let others run at every %dth", at, on, looksPerYield)
		}
	}
}

func TestALoopLetsItsProcessRunWhenItHasToldItSomething(t *testing.T) {
	e := &neighbour{at: 1}
	l := newStanding(t, e)
	l.back = 1000
	pass := func() {
		l.pace = idle.Pace{} // it knows of no other thread yet, and so yields
		l.heard()
		l.pass(2000)
	}
	if pass(); l.yields != 0 || l.back != 1000 {
		t.Errorf("yields %d times for a process that waits and was told nothing", l.yields)
	}
	e.told = true
	if pass(); l.yields != 1 || l.back != 0 {
		t.Errorf("yields %d times for a process that was told something; has its core back since %d", l.yields, l.back)
	}
	if l.back, e.told = 1000, true; !l.lookOn(2000) {
		t.Error("lets the process run before it has heard of anything")
	}
	l.heard()
	e.told = false // the next poll has told it nothing
	if l.heard(); l.lookOn(2000) {
		t.Error("looks on though the process was told something a poll ago")
	}
	l.back, l.told = 1000, false
	l.pace = idle.Pace{}
	if l.pass(l.back.Add(lookFor)); l.yields != 2 || l.left == 0 {
		t.Errorf("yields %d times in all after %v of work for others; expected that the process is let run", l.yields, lookFor)
	}
	e.told, e.at = false, -1
	if pass(); l.yields != 3 {
		t.Errorf("yields %d times in all; expected another, since a process that the work was for may run here", l.yields)
	}
}

func TestALoopThatSharesItsCoreMovesToItsProcess(t *testing.T) {
	e := &neighbour{at: 0}
	l := newStanding(t, e)
	now := clock.Time(1e9)
	if l.lookOn(now); len(l.moves) != 0 {
		t.Fatal("moves from a core that is its own")
	}
	l.others = true
	for range 10 {
		l.lookOn(now)
	}
	if len(l.moves) != 1 || l.moves[0] != 0 {
		t.Fatalf("moves %v in no time; expected one to processor 0", l.moves)
	}
	if l.lookOn(now.Add(moveEvery - 1)); len(l.moves) != 1 {
		t.Error("moves again too soon")
	}
	if l.lookOn(now.Add(moveEvery)); len(l.moves) != 2 {
		t.Error("does not move again")
	}
	e.at = -1
	if l.lookOn(now.Add(3 * moveEvery)); len(l.moves) != 2 {
		t.Error("moves to a process that does not wait")
	}
	e.at = 1
	if l.lookOn(now.Add(5 * moveEvery)); len(l.moves) != 2 {
		t.Error("moves to where it is")
	}
}

func TestALoopDoesNotLookOnWhereOthersTakeTurnsToo(t *testing.T) {
	l := newStanding(t, &neighbour{at: 1})
	now := clock.Time(1e9)
	turn := func(d time.Duration) { // d is how long others run when the loop lets them
		now = now.Add(lookFor)
		if l.lookOn(now) {
			t.Fatal("does not let others run")
		}
		l.back = 0
		now = now.Add(d)
		l.returned(now)
	}
	l.returned(now)
	for range 10 {
		turn(2 * shortTurn)
		turn(shortTurn - 1)
		if !l.lookOn(now) || !l.lookOn(now.Add(1)) {
			t.Fatal("does not look on, though it was a single turn that took long")
		}
	}
	turn(shortTurn)
	turn(shortTurn)
	if first, second := l.lookOn(now), l.lookOn(now); first && second {
		t.Error("looks on though others take turns here")
	}
	l.left, now = 0, now.Add(crowdedFor)
	if l.back = now; !l.lookOn(now) || !l.lookOn(now.Add(1)) {
		t.Error("never looks on again")
	}
}

func TestATurnOfAProcessThatWasToldSomethingMayTakeLong(t *testing.T) {
	e := &neighbour{at: 1, told: true}
	l := newStanding(t, e)
	now := clock.Time(1e9)
	for range 10 {
		l.pass(now)
		now = now.Add(time.Millisecond)
		l.returned(now)
	}
	if !l.lookOn(now) || !l.lookOn(now.Add(1)) {
		t.Error("does not look on beside its process")
	}
}
