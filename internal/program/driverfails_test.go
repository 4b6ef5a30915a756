package program

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

var errDriver = errors.New("the driver has failed")

// failing is a program in a driver that fails at a step, and reports a given profile.
type failing struct {
	driven
	at      string // Enter, Leave, Profile or Close; empty: none
	profile vm.Profile
	lost    Losses
}

func (d *failing) fail(step string) error {
	if d.at == step {
		return errDriver
	}
	return nil
}

func (d *failing) Enter(data []int64) error {
	return errors.Join(d.driven.Enter(data), d.fail("Enter"))
}
func (d *failing) Leave() ([]int64, bool, error) {
	return d.data, d.stopped, d.fail("Leave")
}
func (d *failing) Profile() (vm.Profile, bool, error) { return d.profile, d.stopped, d.fail("Profile") }
func (d *failing) Lost() (Losses, error)              { return d.lost, nil }
func (d *failing) Close() error                       { return errors.Join(d.driven.Close(), d.fail("Close")) }

// Whichever step of the driver fails, the error is returned, each program there is closed once,
// and the NIC goes on handling messages.
func TestAFailureOfTheDriverIsToldAndLeavesNothing(t *testing.T) {
	for _, step := range []string{"", "Enter", "Leave", "Profile", "Close"} {
		for _, second := range []bool{false, true} { // which of the two fails
			for _, undo := range []bool{false, true} {
				what := fmt.Sprintf("%q fails, of the second %v, which is undone %v", step, second, undo)
				n := newNIC(t)
				a, b := &failing{}, &failing{}
				if second {
					b.at = step
				} else {
					a.at = step
				}
				var told []error
				try := func(err error) { told = append(told, err) }
				first := n.prepare(oldSource, false)
				try(n.Reside(first, a))
				_, _, err := n.Commit(first)
				try(err)
				try(n.Settle(first))
				if !n.running(5) {
					t.Errorf("%s: the program does not run", what)
				}
				next := n.prepare(oldSource, true)
				try(n.Reside(next, b))
				_, _, err = n.Commit(next)
				try(err)
				if err != nil && step == "Leave" || undo { // it was not committed
					try(n.Undo(next))
				} else {
					try(n.Settle(next))
				}
				n.message()
				if len(n.shown(5)) != 1 || len(n.machine.IDs()) != 1 {
					t.Errorf("%s: the program displays %v; %d are in the machine", what, n.shown(5), len(n.machine.IDs()))
				}
				try(n.Unload(5))
				if l := n.List(); len(l) != 0 {
					t.Errorf("%s: the table still lists %v", what, l)
				}
				if err := n.Unload(5); !errors.Is(err, ErrNoProgram) {
					t.Errorf("%s: the second unload: %v; expected %v", what, err, ErrNoProgram)
				}
				if _, _, err := n.Load(Spec{Module: module(t, oldSource), ID: 5}); err != nil {
					t.Errorf("%s: its number cannot be used again: %v", what, err)
				} else if err := n.Unload(5); err != nil {
					t.Errorf("%s: unloading the next of its number: %v", what, err)
				}
				if a.closed != 1 || b.closed != 1 || n.Leaks() != nil || len(n.machine.IDs()) != 0 {
					t.Errorf("%s: closed %d and %d times; %v; %d in the machine", what, a.closed, b.closed, n.Leaks(), len(n.machine.IDs()))
				}
				err = errors.Join(told...)
				never := step == "" || step == "Profile" // read only by tools
				if step == "Leave" && second && !undo {
					never = true // it is closed in its place
				}
				if never != (err == nil) || err != nil && !errors.Is(err, errDriver) {
					t.Errorf("%s: told %v", what, err)
				}
			}
		}
	}
}

// The work of a program in the driver counts once, wherever the program continues.
func TestTheProfileInTheDriverCountsOnce(t *testing.T) {
	n := newNIC(t)
	a, b := &failing{}, &failing{}
	want := func(when string, activations uint64) {
		t.Helper()
		for range 2 {
			if info, _ := n.Info(5); info.Profile.Activations != activations {
				t.Errorf("%s: %d activations, expected %d", when, info.Profile.Activations, activations)
			}
		}
	}
	first := n.prepare(oldSource, false)
	if err := n.Reside(first, a); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Commit(first); err != nil {
		t.Fatal(err)
	}
	if err := n.Settle(first); err != nil {
		t.Fatal(err)
	}
	want("after the initialisation", 1)
	a.profile.Activations = 10
	want("with ten in the driver", 11)
	next := n.prepare(oldSource, true)
	if err := n.Reside(next, b); err != nil {
		t.Fatal(err)
	}
	if _, kept, err := n.Commit(next); err != nil || !kept {
		t.Fatal(kept, err)
	}
	want("replaced", 11)
	b.profile.Activations = 5
	want("with five more", 16)
	if err := n.Undo(next); err != nil {
		t.Fatal(err)
	}
	want("taken back", 16)
	a.profile.Activations = 12
	a.lost = Losses{Answers: 1, Displays: 2, Busy: 3, Overtaken: 4}
	want("with two more", 18)
	a.profile.Aborts[vm.OutOfBudget], a.profile.LastCause, a.stopped = 1, vm.OutOfBudget, true
	if info, _ := n.Info(5); info.State() != "stopped" || info.LastAbort != vm.OutOfBudget || n.counts[vni.NICProgramsStopped] != 1 || info.Lost != a.lost || !info.InDriver {
		t.Errorf("it is %s for %v, %d are counted as stopped, %+v were lost", info.State(), info.LastAbort, n.counts[vni.NICProgramsStopped], info.Lost)
	}
	if n.List(); n.counts[vni.NICProgramsStopped] != 1 {
		t.Errorf("one program is counted as stopped %d times", n.counts[vni.NICProgramsStopped])
	}
}

// A program that the driver does not run enters it when it is started, and displays from there.
func TestAProgramEntersTheDriverWhenItBegins(t *testing.T) {
	n := newNIC(t)
	key, _, err := n.Prepare(Spec{Module: module(t, oldSource), ID: 5})
	if err != nil {
		t.Fatal(err)
	}
	d := &failing{}
	if err := n.Reside(key, d); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Commit(key); err != nil || d.entered != 0 {
		t.Fatalf("%v; a program that is not started has entered the driver %d times", err, d.entered)
	}
	if o, err := n.Begin(5); o != vm.Awaiting || err != nil || d.entered != 1 || !slices.Contains(d.data, 10) {
		t.Errorf("its start: %v, %v; entered %d times with %v", o, err, d.entered, d.data)
	}
	n.put(6, shower)
	n.Displayed(5, 44)
	n.Displayed(6, 45) // not in the driver
	n.Displayed(7, 46)
	if !slices.Equal(n.shown(5), []int64{44}) || len(n.shown(6)) != 0 {
		t.Errorf("the programs have displayed %v and %v", n.shown(5), n.shown(6))
	}
	if o, err := n.Begin(77); o != vm.NoProgram || err != nil {
		t.Errorf("the start of no program: %v, %v", o, err)
	}
	guard, _, err := n.Prepare(Spec{Module: module(t, oddSource), ID: 10, Guards: guardedName, Trigger: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Reside(guard, &driven{}); !errors.Is(err, ErrState) {
		t.Errorf("a guard in the driver: %v; expected %v", err, ErrState)
	}
}

// A program in the driver that uses segments tells which of them it does not find there.
func TestAProgramInTheDriverSaysWhichSegmentsItLacks(t *testing.T) {
	const uses = "PROGRAM p: VAR v; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN GET v OFFSET 0 FROM 1 LEN 8 END; END;"
	for source, want := range map[string]string{uses: "one is apart; three is apart", oldSource: ""} {
		n := newNIC(t)
		for _, id := range []uint32{3, 2, 1} {
			if err := n.AddSegment(id, vni.AlignedBytes(8+SegmentTail)); err != nil {
				t.Fatal(err)
			}
		}
		n.KeepApart(3, errors.New("three is apart"))
		n.KeepApart(1, errors.New("one is apart"))
		n.KeepApart(9, errors.New("nine is apart"))
		key := n.prepare(source, false)
		if err := n.Reside(key, &driven{}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := n.Commit(key); err != nil {
			t.Fatal(err)
		}
		if info, _ := n.Info(5); info.Lacks != want {
			t.Errorf("it lacks %q; expected %q", info.Lacks, want)
		}
		n.put(6, uses)
		if info, _ := n.Info(6); info.Lacks != "" {
			t.Errorf("a program in the machine lacks %q", info.Lacks)
		}
	}
}

// A message that executes nothing costs only its dispatch, whatever the message before has
// executed.
func TestAMessageThatExecutesNothingCostsItsDispatchAlone(t *testing.T) { // PANIC-5
	n := newNIC(t)
	n.put(6, "PROGRAM p: VAR i; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN i = 0; WHILE i < 100 DO i = i + 1 END; END;")
	n.put(7, shower, func(s *Spec) { s.Start = false })
	key, d := n.reside(false)
	if _, _, err := n.Commit(key); err != nil {
		t.Fatal(err)
	}
	d.fails = errors.New("busy")
	spent := func(id vm.ID, trigger uint32) int {
		n.Run(0)
		m := n.messageFor(id)
		m.Trigger = trigger
		n.push(m)
		n.Run(0)
		return limits.ProgramPoll - n.Credit()
	}
	for _, c := range []struct {
		what    string
		id      vm.ID
		trigger uint32
	}{{"for no trigger", 6, 9}, {"for a program that was never started", 7, 1}, {"that finds no variables", 5, 1}} {
		if got := spent(6, 1); got <= limits.ProgramDispatch+100 {
			t.Fatalf("a loop has cost %d", got)
		}
		if got := spent(c.id, c.trigger); got != limits.ProgramDispatch {
			t.Errorf("a message %s has cost %d, expected %d", c.what, got, limits.ProgramDispatch)
		}
	}
	if got := spent(99, 1); got > limits.ProgramDispatch {
		t.Errorf("a message for no program has cost %d", got)
	}
}
