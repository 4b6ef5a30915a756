package program

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

var guardedName, otherName = processName("app/3"), processName("app/4")

func processName(s string) vni.Name {
	name, err := vni.ParseName(s)
	if err != nil {
		panic(err)
	}
	return name
}

// oddSource is a filter that passes odd bytes, evenSource one that passes even bytes.
const (
	oddSource  = "PROGRAM odd: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN IF PACKETBYTE[0] % 2 = 1 THEN PASS; DROP END; END;"
	evenSource = "PROGRAM even: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN IF PACKETBYTE[0] % 2 = 0 THEN PASS; DROP END; END;"
)

func guarding(name vni.Name) func(*Spec) { return func(s *Spec) { s.Guards, s.Trigger = name, 1 } }

func replacing(s *Spec) { s.Replace = true }

// passed returns which of the bytes 1 and 2 pass the guard of a process.
func (n *nicTest) passed(name vni.Name) (all []byte) {
	f := n.engine.guards[name]
	for _, b := range []byte{1, 2} {
		if f == nil || !f(ownNIC, []byte{b}) {
			all = append(all, b)
		}
	}
	return all
}

// wantPassed compares the bytes that pass the guard of a process with the expected ones, and
// audits the table.
func (n *nicTest) wantPassed(when string, name vni.Name, want ...byte) {
	n.t.Helper()
	if got := n.passed(name); !slices.Equal(got, want) {
		n.t.Errorf("%s: %v pass to %v, want %v", when, got, name, want)
	}
	if err := n.Audit(); err != nil {
		n.t.Errorf("%s: %v", when, err)
	}
}

// wantGuarded expects that a guard is refused because of a program, which the error names.
func (n *nicTest) wantGuarded(when string, s Spec, by string) {
	n.t.Helper()
	_, _, err := n.Load(s)
	if !errors.Is(err, ErrGuarded) || !strings.Contains(err.Error(), by) || !strings.Contains(err.Error(), "app/3") {
		n.t.Errorf("%s: %v; expected an error that names %q and app/3", when, err, by)
	}
}

func TestAProcessHasOneGuard(t *testing.T) {
	n := newNIC(t)
	n.put(10, oddSource, guarding(guardedName))
	second := Spec{Module: module(t, evenSource), ID: 11, Start: true, Guards: guardedName, Trigger: 1}
	n.wantGuarded("while another guards it", second, "10 (odd)")
	n.put(12, evenSource)
	second.ID, second.Replace = 12, true
	n.wantGuarded("in the place of a program that does not guard it", second, "10 (odd)")
	n.wantPassed("after both", guardedName, 1)
	n.put(13, evenSource, guarding(otherName))
	n.wantPassed("another process", otherName, 2)
	if err := n.Unload(13); err != nil {
		t.Fatal(err)
	}
	n.wantPassed("another process without its guard", otherName, 1, 2)
	n.wantPassed("then", guardedName, 1)
	if err := n.Unload(10); err != nil {
		t.Fatal(err)
	}
	n.wantPassed("without its guard", guardedName, 1, 2)
	n.put(12, evenSource, replacing, guarding(guardedName))
	n.wantPassed("with the next", guardedName, 2)
}

func TestAGuardThatIsBeingLoadedIsTheOnlyOne(t *testing.T) {
	n := newNIC(t)
	spec := Spec{Module: module(t, oddSource), ID: 10, Start: true, Guards: guardedName, Trigger: 1}
	second := Spec{Module: module(t, evenSource), ID: 11, Start: true, Guards: guardedName, Trigger: 1}
	key, _, err := n.Prepare(spec)
	if err != nil {
		t.Fatal(err)
	}
	n.wantGuarded("while one is prepared", second, "10 (odd)")
	if err := n.Undo(key); err != nil {
		t.Fatal(err)
	}
	n.put(11, evenSource, guarding(guardedName))
	n.wantPassed("when that has been taken back", guardedName, 2)
}

// A guard that another program has replaced may come back until the replacement is settled, so
// its process can have no other guard until then.
func TestAGuardThatMayComeBackIsTheOnlyOne(t *testing.T) {
	n := newNIC(t)
	n.put(10, oddSource, guarding(guardedName))
	key, _, err := n.Prepare(Spec{Module: module(t, evenSource), ID: 10, Replace: true, Start: true, Guards: otherName, Trigger: 1})
	if err == nil {
		_, _, err = n.Commit(key)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.wantPassed("that it no longer guards", guardedName, 1, 2)
	n.wantPassed("that it guards now", otherName, 2)
	second := Spec{Module: module(t, evenSource), ID: 11, Start: true, Guards: guardedName, Trigger: 1}
	n.wantGuarded("while the replacement may be taken back", second, "10 (odd)")
	if err := n.Undo(key); err != nil {
		t.Fatal(err)
	}
	n.wantPassed("when it has been", guardedName, 1)
	n.wantPassed("when it has been", otherName, 1, 2)
}

// A guard does not come back if its replacement was unloaded. Then the process may have another
// guard, which the undo leaves alone.
func TestAGuardThatCannotComeBackLeavesItsPlaceToAnother(t *testing.T) {
	n := newNIC(t)
	n.put(10, oddSource, guarding(guardedName))
	key, _, err := n.Prepare(Spec{Module: module(t, evenSource), ID: 10, Replace: true, Start: true})
	if err == nil {
		_, _, err = n.Commit(key)
	}
	if err == nil {
		err = n.Unload(10)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.wantPassed("when both are gone", guardedName, 1, 2)
	n.put(11, oddSource, guarding(guardedName))
	if err := n.Undo(key); err == nil {
		t.Error("undone, though what was replaced has ended")
	}
	n.wantPassed("when the replacement is undone", guardedName, 1)
}

// The replacement of a guard guards the same process, whether the request says so or not: a
// process loses its guard when that is unloaded. At no moment does the process lack a guard.
func TestWhatReplacesAGuardGuards(t *testing.T) {
	for said, more := range map[string]func(*Spec){"said again": guarding(guardedName), "not said": func(*Spec) {}} {
		n := newNIC(t)
		n.put(10, oddSource, guarding(guardedName))
		n.engine.bare = nil
		n.put(10, evenSource, replacing, more)
		n.wantPassed(said, guardedName, 2)
		key, _, err := n.Prepare(Spec{Module: module(t, oddSource), ID: 10, Replace: true, Start: true})
		if err != nil {
			t.Fatal(err)
		}
		n.wantPassed(said+", while the next is prepared", guardedName, 2)
		if _, _, err = n.Commit(key); err != nil {
			t.Fatal(err)
		}
		n.wantPassed(said+", when that is in its place", guardedName, 1)
		if err := n.Undo(key); err != nil {
			t.Fatal(err)
		}
		n.wantPassed(said+", when that has been taken back", guardedName, 2)
		if len(n.engine.bare) > 0 {
			t.Errorf("%s: %v were without a guard for a moment", said, n.engine.bare)
		}
		if err := n.Unload(10); err != nil {
			t.Fatal(err)
		}
		n.wantPassed(said+", when it is unloaded", guardedName, 1, 2)
	}
}

func TestWhatReplacesAGuardMustHaveItsTrigger(t *testing.T) {
	n := newNIC(t)
	n.put(10, oddSource, guarding(guardedName))
	_, _, err := n.Load(Spec{Module: module(t, "PROGRAM odd: TRIGGERS 2; BEGIN END; MESSAGE 2: BEGIN PASS END; END;"), ID: 10, Replace: true, Start: true})
	if err == nil || !strings.Contains(err.Error(), "guard of app/3") || !strings.Contains(err.Error(), "no trigger 1") {
		t.Errorf("it is loaded, or the error does not say why: %v", err)
	}
	n.wantPassed("with the guard that has stayed", guardedName, 1)
}

// A guard that is not started, or that was stopped, drops everything: it is a filter without a
// verdict.
func TestAGuardThatDoesNotRunPassesNothing(t *testing.T) {
	n := newNIC(t)
	n.put(10, oddSource, guarding(guardedName), func(s *Spec) { s.Start = false })
	n.wantPassed("before it is started", guardedName)
	n.Start(10)
	n.wantPassed("when it is started", guardedName, 1)
	n.put(10, "PROGRAM stops: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN STOP END; END;", replacing)
	n.wantPassed("when it has stopped", guardedName)
	n.put(10, oddSource, replacing)
	n.wantPassed("when it is replaced", guardedName, 1)
}

func TestAPreparedGuardThatIsForgottenGuardsNothing(t *testing.T) {
	n := newNIC(t)
	if _, _, err := n.Prepare(Spec{Module: module(t, oddSource), ID: 10, Start: true, Guards: guardedName, Trigger: 1}); err != nil {
		t.Fatal(err)
	}
	n.engine.now = n.engine.now.Add(limits.PrepareWithin + time.Nanosecond)
	n.Expire()
	n.wantPassed("when it is forgotten", guardedName, 1, 2)
	n.put(11, evenSource, guarding(guardedName))
	n.wantPassed("with another", guardedName, 2)
}

// A guard that sends to the process that it guards judges its own message, too. That message
// follows from the one before, like every message of this NIC.
func TestAGuardThatJudgesItsOwnMessagesForEverIsStopped(t *testing.T) { // PANIC-5
	n := newNIC(t)
	n.engine.process = guardedName
	n.put(5, "PROGRAM p: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN SEND n LEN 8 AS 1 TO 0x80000001; PASS END; END;", guarding(guardedName))
	n.engine.guards[guardedName](ownNIC, nil)
	n.run(4 * limits.ProgramChain)
	info, _ := n.Info(5)
	if info.State() != "stopped" || info.LastAbort != vm.Recursion || n.Pending() > 0 {
		t.Errorf("the guard is %s for %v, and %d messages wait", info.State(), info.LastAbort, n.Pending())
	}
}

// A filter's verdicts are counted, including those of the version that it has replaced, and of a
// version that is undone.
func TestWhatAGuardDropsIsCounted(t *testing.T) {
	n := newNIC(t)
	want := func(when string, dropped uint64) {
		t.Helper()
		if info, _ := n.Info(5); info.Dropped != dropped {
			t.Errorf("%s: %d messages are dropped, want %d", when, info.Dropped, dropped)
		}
	}
	n.put(5, oddSource, guarding(guardedName))
	n.passed(guardedName)
	want("of an odd and an even byte", 1)
	n.engine.guards[guardedName](ownNIC, nil)
	want("of one that is too short", 2)
	key, _, err := n.Prepare(Spec{Module: module(t, evenSource), ID: 5, Start: true, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Commit(key); err != nil {
		t.Fatal(err)
	}
	want("replaced", 2)
	n.passed(guardedName)
	want("by another", 3)
	if err := n.Undo(key); err != nil {
		t.Fatal(err)
	}
	n.passed(guardedName)
	want("that was taken back", 4)
}
