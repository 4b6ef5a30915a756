package program

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/pdl/vm"
)

// prepare prepares a source under number 5 and returns its key.
func (n *nicTest) prepare(source string, replace bool) (key uint64) {
	n.t.Helper()
	key, _, err := n.Prepare(Spec{Module: module(n.t, source), ID: 5, Start: true, Replace: replace})
	if err != nil {
		n.t.Fatal(err)
	}
	return key
}

// commit is prepare followed by Commit.
func (n *nicTest) commit(source string, replace bool) (key uint64, kept bool) {
	n.t.Helper()
	key = n.prepare(source, replace)
	_, kept, err := n.Commit(key)
	if err != nil {
		n.t.Fatal(err)
	}
	return key, kept
}

// message makes program 5 handle a message.
func (n *nicTest) message(payload ...byte) {
	n.t.Helper()
	if err := n.Post(5, 1, payload); err != nil {
		n.t.Fatal(err)
	}
	n.run(10)
}

const (
	oldSource    = "PROGRAM old: VAR n; TRIGGERS 1; BEGIN n = 10 END; MESSAGE 1: BEGIN n = n + 1; DISPLAY n END; END;"
	strangerText = "PROGRAM stranger: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY 77 END; END;"
)

func TestUndoFindsAProgramUnloadedThatHadReplacedAnother(t *testing.T) { // PANIC-2
	n := newNIC(t)
	n.put(5, oldSource)
	key, _ := n.commit(strings.Replace(oldSource, "old", "new", 1), true)
	if err := n.Unload(5); err != nil {
		t.Fatal(err)
	}
	if err := n.Undo(key); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "5 was unloaded meanwhile, and with it old") {
		t.Errorf("undo says %v", err)
	}
	if len(n.List()) != 0 || n.machine.IDs() != nil || n.Leaks() != nil {
		t.Errorf("there are still %v, and %v in the machine: %v", n.List(), n.machine.IDs(), n.Leaks())
	}
}

func TestUndoLeavesAloneWhatHasTheNumberByNow(t *testing.T) { // PANIC-2
	for _, replace := range []bool{false, true} {
		n := newNIC(t)
		if replace {
			n.put(5, oldSource)
		}
		key, _ := n.commit(strings.Replace(oldSource, "old", "new", 1), replace)
		if err := n.Unload(5); err != nil {
			t.Fatal(err)
		}
		n.put(5, strangerText)
		if err := n.Undo(key); (err != nil) != replace {
			t.Errorf("undo says %v", err)
		}
		n.message()
		if got := n.shown(5); !slices.Equal(got, []int64{77}) {
			t.Errorf("the other program displays %v", got)
		}
		if len(n.machine.IDs()) != 1 || n.Leaks() != nil {
			t.Errorf("the machine has %v: %v", n.machine.IDs(), n.Leaks())
		}
	}
}

// The number of an unloaded program can be replaced at once, whatever its loader has yet to
// settle.
func TestTheNumberOfAProgramThatWasUnloadedIsFree(t *testing.T) {
	n := newNIC(t)
	key, _ := n.commit(oldSource, false)
	if err := n.Unload(5); err != nil {
		t.Fatal(err)
	}
	if _, id, err := n.Prepare(Spec{Module: module(t, strangerText)}); err != nil || id != 1 {
		t.Fatal(id, err)
	}
	n.put(5, strangerText)
	n.put(5, strangerText, func(s *Spec) { s.Replace = true })
	if err := n.Settle(key); err != nil {
		t.Error(err)
	}
}

// If the replacement has taken over a program's data and was stopped, the program is not stopped
// when it is back.
func TestUndoneAProgramRunsAsItDidBefore(t *testing.T) { // PANIC-2
	for name, end := range map[string]string{"out of budget": "WHILE 1 DO n = n + 1", "stopped": "STOP"} {
		n := newNIC(t)
		n.put(5, oldSource)
		n.message()
		key, kept := n.commit(strings.Replace(oldSource, "DISPLAY n END", "n = 99; "+end+" END", 1), true)
		if !kept {
			t.Fatal("it has not kept the data")
		}
		n.message()
		if info, _ := n.Info(5); info.Running {
			t.Fatal(name, "the new version was to stop")
		}
		if err := n.Undo(key); err != nil {
			t.Fatal(err)
		}
		n.message()
		if got := n.shown(5); !slices.Equal(got, []int64{11, 12}) {
			t.Errorf("%s: the old program displays %v; want it to go on from where it was replaced", name, got)
		}
	}
}

// While the new version runs, its counts are not lost when it is undone.
func TestUndoneAProgramHasTheDataOfTheOneThatRan(t *testing.T) {
	n := newNIC(t)
	n.put(5, oldSource)
	key, _ := n.commit(oldSource, true)
	n.message()
	if err := n.Undo(key); err != nil {
		t.Fatal(err)
	}
	n.message()
	if got := n.shown(5); !slices.Equal(got, []int64{12}) {
		t.Errorf("it displays %v", got)
	}
}

// A restarted NIC gives out other keys, so that an old key does not name a new preparation.
func TestKeysAreNotThoseOfTheLifeBefore(t *testing.T) {
	seen := map[uint64]bool{}
	for life := range uint64(4) {
		n := newNIC(t)
		n.Table = New(Config{NIC: ownNIC, Incarnation: life, Counts: n.counts}, n.engine)
		for id := range vm.ID(8) {
			key, _, err := n.Prepare(Spec{Module: module(t, oldSource), ID: id + 1})
			if err != nil || key == 0 || seen[key] {
				t.Fatalf("life %d gives key %d, again %v: %v", life, key, seen[key], err)
			}
			seen[key] = true
		}
	}
}

// A version that is not started yet has the profile of the one before, which it has not earned:
// it can be started.
func TestWhatReplacesAProgramAndIsNotStartedIsLoaded(t *testing.T) { // PANIC-22
	n := newNIC(t)
	n.put(5, "PROGRAM p: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY 1 / n END; END;")
	if err := n.Post(5, 1, nil); err != nil {
		t.Fatal(err)
	}
	n.run(2)
	if _, kept, err := n.Load(Spec{Module: module(t, "PROGRAM p: VAR n, m; TRIGGERS 1; BEGIN n = 1 END; MESSAGE 1: BEGIN DISPLAY n END; END;"), ID: 5, Replace: true}); err != nil || kept {
		t.Fatal(kept, err)
	}
	info, _ := n.Info(5)
	if info.State() != "loaded" || info.Profile.Activations != 2 || info.LastAbort != vm.DivideByZero {
		t.Errorf("it is %s, with %d activations and %v as the last abort; want loaded, 2, and %v of the one before", info.State(), info.Profile.Activations, info.LastAbort, vm.DivideByZero)
	}
	if err := n.Post(5, 1, nil); !errors.Is(err, ErrInactive) || !strings.Contains(err.Error(), "was never started") {
		t.Errorf("a message: %v", err)
	}
	if o := n.Start(5); o != vm.Awaiting {
		t.Errorf("its start: %v", o)
	}
	if info, _ := n.Info(5); info.State() != "running" {
		t.Errorf("then it is %s", info.State())
	}
}
