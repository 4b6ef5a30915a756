package program

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A program is unloaded even if the driver fails to close it: its number, its name and its place
// among the programs are free.
func TestAProgramIsUnloadedThoughTheDriverFails(t *testing.T) {
	n := newNIC(t)
	key := n.prepare(oldSource, false)
	if err := n.Reside(key, &failing{at: "Close"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Commit(key); err != nil {
		t.Fatal(err)
	}
	if err := n.Settle(key); err != nil {
		t.Fatal(err)
	}
	if err := n.Unload(5); !errors.Is(err, errDriver) {
		t.Errorf("the unload: %v; expected %v", err, errDriver)
	}
	if _, named := n.Lookup(prog.ProgramName, "old", 0); named || len(n.List()) != 0 || len(n.loaded) != 0 {
		t.Errorf("the program is found by its name: %v; %d are listed", named, len(n.List()))
	}
	if err := n.Post(5, 1, nil); !errors.Is(err, ErrNoProgram) {
		t.Errorf("a message for it: %v; expected %v", err, ErrNoProgram)
	}
	n.put(5, oldSource)
	n.message()
	if got := n.shown(5); !slices.Equal(got, []int64{11}) {
		t.Errorf("the next program of its number displays %v", got)
	}
}

// If a program cannot bring its variables back from the driver, it has left it all the same: it
// goes on in the machine, and its work there counts once.
func TestAProgramThatCannotLeaveTheDriverGoesOn(t *testing.T) {
	n := newNIC(t)
	key := n.prepare(oldSource, false)
	d := &failing{at: "Leave"}
	if err := n.Reside(key, d); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Commit(key); err != nil {
		t.Fatal(err)
	}
	if err := n.Settle(key); err != nil {
		t.Fatal(err)
	}
	d.profile.Activations = 10
	next := n.prepare(oldSource, true)
	if _, _, err := n.Commit(next); !errors.Is(err, errDriver) {
		t.Errorf("the commit of its successor: %v; expected %v", err, errDriver)
	}
	if err := n.Undo(next); err != nil {
		t.Fatal(err)
	}
	d.fails = errDriver // the driver lends no variables of a program that has left
	n.message()
	info, _ := n.Info(5)
	if got := n.shown(5); info.InDriver || !slices.Equal(got, []int64{11}) || n.counts[vni.NICProgramDatagramsLost] != 0 {
		t.Errorf("it is in the driver: %v; it displays %v", info.InDriver, got)
	}
	if info.Profile.Activations != 12 { // its initialisation, ten there, and the message
		t.Errorf("%d activations are counted; expected 12", info.Profile.Activations)
	}
}

// An activation that is aborted takes no sends from the next one.
func TestAnAbortedActivationTakesNoSendsFromTheNext(t *testing.T) { // PANIC-5
	n := newNIC(t)
	n.put(5, "PROGRAM p: VAR i, z; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN i = 0; WHILE i < 200 DO BEGIN SEND i LEN 8 AS 1 TO 6; i = i + 1 END; DISPLAY 1 / z END; END;")
	n.put(6, "PROGRAM sink: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN END; END;")
	for range 3 { // one right behind the other
		if err := n.Post(5, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	n.run(1000)
	const want = 3 * 200
	if got := n.counts[vni.NICProgramSends]; got != want || n.counts[vni.NICProgramSendsRefused] != 0 || want/3*2 <= limits.ProgramSends {
		t.Errorf("%d sends are taken, %d refused; expected %d and none", got, n.counts[vni.NICProgramSendsRefused], want)
	}
	if info, _ := n.Info(5); info.Profile.Aborts[vm.DivideByZero] != 3 {
		t.Errorf("%d activations are aborted; expected 3", info.Profile.Aborts[vm.DivideByZero])
	}
}

// A command that waits for room goes on as soon as there is room, though other messages still
// wait. The command behind it goes on waiting.
func TestACommandGoesOnBeforeTheQueueIsEmpty(t *testing.T) {
	n := newNIC(t)
	n.put(5, shower)
	n.Run(0)
	for range limits.ProgramQueue / cost(prog.MaxMessage) {
		if err := n.Post(5, 1, make([]byte, prog.MaxMessage)); err != nil {
			t.Fatal(err)
		}
	}
	waits := &process{message: make([]byte, prog.MaxMessage)}
	for _, p := range []*process{waits, {message: waits.message}} {
		n.Command(p, vm.Destination{Program: 5, Trigger: 1}, prog.MaxMessage, false)
	}
	if len(n.held) != 2 {
		t.Fatalf("%d commands wait; expected two", len(n.held))
	}
	n.credit = 1 // one message is handled
	if handled := n.Run(1); handled == 0 || n.Pending() == 0 {
		t.Fatalf("%d messages are handled, %d wait", handled, n.Pending())
	}
	if status, ended := n.engine.ended[waits]; len(n.held) != 1 || !ended || status != vni.StatusOK {
		t.Errorf("%d commands wait; the first has ended %v, with %v", len(n.held), ended, status)
	}
	if err := n.Audit(); err != nil {
		t.Error(err)
	}
}

// The numbers of news go round: 0 is newer than the largest number.
func TestNewsOfAProgramGoRound(t *testing.T) {
	const last = 1<<32 - 1
	pr := &Peer{}
	for _, c := range []struct {
		number uint32
		name   string
		want   string
	}{{last - 1, "first", "first"}, {last, "second", "second"}, {0, "third", "third"}, {last, "late", "third"}, {1, "fourth", "fourth"}} {
		if !pr.learn(5, announced{name: c.name, number: c.number}) {
			t.Fatal("there is no room")
		}
		if got := pr.programs[5].name; got != c.want || pr.names[c.want] != 5 || len(pr.names) != 1 {
			t.Errorf("news %d: the program is %s, found as %v; expected %s", c.number, got, pr.names, c.want)
		}
	}
}
