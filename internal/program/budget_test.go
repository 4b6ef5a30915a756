package program

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// Each of the three budgets stops a program that exceeds it, and a counter of the NIC counts it.
func TestProgramsThatWillNotEndAreStoppedAndCounted(t *testing.T) { // PANIC-5
	for _, c := range []struct {
		name, body string
		messages   int
		why        vm.Cause
		sends      uint64
	}{
		{"an endless loop", "WHILE 1 DO n = n + 1", 1, vm.OutOfBudget, 0},
		{"messages to itself", "SEND n LEN 8 AS 1 TO 5", 1, vm.Recursion, limits.ProgramChain - 1},
		{"a flood", "SEND n LEN 8 AS 1 TO 5 AT 99", limits.ProgramRefusals, vm.Flood, 0},
	} {
		n := newNIC(t)
		n.put(5, "PROGRAM p: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN "+c.body+" END; END;")
		for range c.messages {
			if err := n.Post(5, 1, nil); err != nil {
				t.Fatal(c.name, err)
			}
			n.run(2 * limits.ProgramChain)
		}
		info, _ := n.Info(5)
		if info.State() != "stopped" || info.LastAbort != c.why || n.counts[vni.NICProgramsStopped] != 1 {
			t.Errorf("%s: the program is %s for %v, and %d are counted as stopped", c.name, info.State(), info.LastAbort, n.counts[vni.NICProgramsStopped])
		}
		if p := info.Profile; p.Aborts[c.why] != 1 || p.Aborted() != uint64(c.messages) {
			t.Errorf("%s: %d aborts are counted, %v, of %d activations that were", c.name, p.Aborted(), p.Aborts, c.messages)
		}
		if n.Pending() > 0 {
			t.Errorf("%s: %d messages still wait", c.name, n.Pending())
		}
		if got := n.counts[vni.NICProgramSends]; got != c.sends {
			t.Errorf("%s: %d messages are sent; expected %d", c.name, got, c.sends)
		}
	}
}

func TestAProgramThatIsRefusedNowAndThenIsNoFlood(t *testing.T) {
	n := newNIC(t)
	n.put(5, "PROGRAM p: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN SEND n LEN 8 AS 1 TO 5 AT 99 END; END;")
	for range 3 * limits.ProgramRefusals {
		n.engine.now = n.engine.now.Add(limits.ProgramFlood / (limits.ProgramRefusals / 2))
		if err := n.Post(5, 1, nil); err != nil {
			t.Fatal(err)
		}
		n.run(2)
	}
	if info, _ := n.Info(5); info.State() != "running" || info.Profile.Aborts[vm.SendRefused] != 3*limits.ProgramRefusals {
		t.Errorf("it is %s, and was refused %d times", info.State(), info.Profile.Aborts[vm.SendRefused])
	}
}

// While a poll has other work, programs have ProgramShare instructions for each item of it.
func TestProgramsHaveAShareOfABusyEngine(t *testing.T) { // PANIC-5
	n := newNIC(t)
	n.put(5, "PROGRAM p: VAR i; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN i = 0; WHILE i < 1000 DO i = i + 1 END; END;")
	n.run(1)
	const messages, work = 200, 10
	for range messages {
		if err := n.Post(5, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	polls := 0
	for ; n.Pending() > 0; polls++ {
		n.Run(work)
	}
	info, _ := n.Info(5)
	earned := polls*work*limits.ProgramShare + limits.ProgramPoll // plus the initial credit
	if spent := int(info.Profile.Instructions); spent > earned+limits.ProgramPoll {
		t.Errorf("in %d polls programs have executed %d instructions; they had earned %d", polls, spent, earned)
	}
	if polls < messages/2 {
		t.Errorf("%d messages were handled within %d polls of a busy engine", messages, polls)
	}
}

func TestWhatIsPreparedIsForgottenInTheEnd(t *testing.T) { // PANIC-2
	n := newNIC(t)
	n.put(5, "PROGRAM old: VAR n; TRIGGERS 1; BEGIN n = 3 END; MESSAGE 1: BEGIN DISPLAY n END; END;")
	key, id, err := n.Prepare(Spec{Module: module(t, "PROGRAM new: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY 9 END; END;"), ID: 5, Replace: true, Start: true})
	if err != nil || id != 5 {
		t.Fatal(id, err)
	}
	n.engine.now = n.engine.now.Add(limits.PrepareWithin - time.Nanosecond)
	if n.Expire(); len(n.prepared) != 1 {
		t.Fatal("it is forgotten before its time")
	}
	n.engine.now = n.engine.now.Add(time.Nanosecond)
	n.Expire()
	if _, _, err := n.Commit(key); err == nil || n.Leaks() != nil {
		t.Errorf("it is still there: %v, %v", err, n.Leaks())
	}
	if err := n.Post(5, 1, nil); err != nil {
		t.Fatal(err)
	}
	n.run(2)
	if got := n.shown(5); len(got) != 1 || got[0] != 3 {
		t.Errorf("the one before displays %v", got)
	}
}

// The replacement of a stopped program begins anew. Undone, it leaves the program before as it
// was.
func TestWhatReplacesAStoppedProgramBeginsAnew(t *testing.T) { // PANIC-2
	n := newNIC(t)
	const source = "PROGRAM p: VAR n; TRIGGERS 1; BEGIN n = 5 END; MESSAGE 1: BEGIN n = n + 1; DISPLAY n; IF n = 7 THEN STOP END; END;"
	n.put(5, source)
	post := func() {
		t.Helper()
		if err := n.Post(5, 1, nil); err != nil {
			t.Fatal(err)
		}
		n.run(10)
	}
	post()
	post()
	if err := n.Post(5, 1, nil); !errors.Is(err, ErrInactive) {
		t.Errorf("to a stopped program: %v", err)
	}
	key, _, err := n.Prepare(Spec{Module: module(t, source), ID: 5, Start: true, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, kept, err := n.Commit(key); err != nil || kept {
		t.Fatal("the data of a stopped program were kept:", kept, err)
	}
	post()
	if got := n.shown(5); !slices.Equal(got, []int64{6, 7, 6}) {
		t.Errorf("it displays %v", got)
	}
	if err := n.Undo(key); err != nil {
		t.Fatal(err)
	}
	if err := n.Post(5, 1, nil); !errors.Is(err, ErrInactive) {
		t.Errorf("to the stopped program that is there again: %v", err)
	}
}

// Values that a program has displayed in the place of another are not in the other's log when
// that is back, even if the log is full.
func TestUndoneTheLogIsThatOfTheProgramBefore(t *testing.T) { // PANIC-26
	n := newNIC(t)
	const source = "PROGRAM p: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN WHILE PACKETLEN > 0 AND n < 4096 DO BEGIN n = n + 1; DISPLAY n END; DISPLAY -1 END; END;"
	n.put(5, source)
	post := func(payload []byte) {
		t.Helper()
		if err := n.Post(5, 1, payload); err != nil {
			t.Fatal(err)
		}
		n.run(10)
	}
	post([]byte{1})
	before := n.shown(5)
	if len(before) != limits.ProgramLog {
		t.Fatalf("%d values are in the log, want as many as it keeps", len(before))
	}
	key, _, err := n.Prepare(Spec{Module: module(t, source), ID: 5, Start: true, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Commit(key); err != nil {
		t.Fatal(err)
	}
	post(nil)
	if got := n.shown(5); slices.Equal(got, before) {
		t.Error("the program in its place displays nothing, or in no log")
	}
	if err := n.Undo(key); err != nil {
		t.Fatal(err)
	}
	if got := n.shown(5); !slices.Equal(got, before) {
		t.Errorf("the log begins with %v, and began with %v", got[:3], before[:3])
	}
}
