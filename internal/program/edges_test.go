package program

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// judged is a program in a driver that notes what each borrowed activation says of a stop.
type judged struct {
	driven
	stops []bool
}

func (d *judged) Borrow(_ []int64, f func(bool) bool) error {
	d.stops = append(d.stops, f(d.stopped))
	return nil
}

// A program that the NIC stops after a borrowed activation is stopped in the driver by that same
// activation. Otherwise it would go on handling datagrams there.
func TestAProgramThatIsStoppedWhileBorrowedStopsInTheDriver(t *testing.T) { // PANIC-5
	for why, c := range map[vm.Cause]struct {
		body     string
		messages int
	}{
		vm.Flood:     {"SEND n LEN 8 AS 1 TO 5 AT 99", limits.ProgramRefusals},
		vm.Recursion: {"SEND n LEN 8 AS 1 TO 5", 1},
		vm.None:      {"STOP", 1},
	} {
		n := newNIC(t)
		key := n.prepare("PROGRAM p: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN "+c.body+" END; END;", false)
		d := &judged{}
		if err := n.Reside(key, d); err != nil {
			t.Fatal(err)
		}
		if _, _, err := n.Commit(key); err != nil {
			t.Fatal(err)
		}
		for range c.messages {
			n.push(n.messageFor(5))
			n.run(2 * limits.ProgramChain)
		}
		info, _ := n.Info(5)
		if info.State() != "stopped" || info.LastAbort != why {
			t.Errorf("the program is %s for %v; expected it to be stopped for %v", info.State(), info.LastAbort, why)
		}
		if at := slices.Index(d.stops, true); at < 0 || at != len(d.stops)-1 {
			t.Errorf("%v: activation %d of %d stops it in the driver; expected the last one", why, at+1, len(d.stops))
		}
	}
}

// A program in the driver has its variables there. A second start leaves them alone.
func TestAStartOfAProgramInTheDriverLeavesItsVariablesAlone(t *testing.T) {
	n := newNIC(t)
	key, d := n.reside(false)
	if _, _, err := n.Commit(key); err != nil {
		t.Fatal(err)
	}
	if o, err := n.Begin(5); o != vm.Inactive || err != nil || d.entered != 1 {
		t.Errorf("%v, %v; it has entered the driver %d times, expected once", o, err, d.entered)
	}
}

// If the driver cannot report the actions of a program, the NIC believes none of them.
func TestAProfileThatTheDriverCannotReadCountsForNothing(t *testing.T) {
	n := newNIC(t)
	key := n.prepare(oldSource, false)
	d := &failing{at: "Profile"}
	if err := n.Reside(key, d); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Commit(key); err != nil {
		t.Fatal(err)
	}
	d.profile.Activations, d.stopped = 7, true
	if info, _ := n.Info(5); info.Profile.Activations != 1 || info.State() != "running" {
		t.Errorf("it is %s after %d activations; expected running after 1", info.State(), info.Profile.Activations)
	}
}

// If the first load of a number is undone, the program is gone.
func TestUndoneAProgramThatReplacedNoneIsGone(t *testing.T) { // PANIC-2
	n := newNIC(t)
	key, _ := n.commit(oldSource, false)
	if err := n.Undo(key); err != nil {
		t.Fatal(err)
	}
	_, named := n.Lookup(prog.ProgramName, "old", 0)
	if named || len(n.List()) != 0 || len(n.machine.IDs()) != 0 || n.Leaks() != nil {
		t.Errorf("it has its name: %v; %d are listed, %d in the machine; %v",
			named, len(n.List()), len(n.machine.IDs()), n.Leaks())
	}
}

// A committed program takes one place, also before it is settled. If it is unloaded then, its
// number is free.
func TestACommittedProgramTakesOnePlace(t *testing.T) {
	n := newNIC(t)
	for id := range vm.ID(limits.Programs - 2) {
		n.put(id+10, shower)
	}
	m := module(t, shower)
	prepared := func(want vm.ID) (key uint64) {
		t.Helper()
		key, id, err := n.Prepare(Spec{Module: m})
		if err != nil || id != want {
			t.Fatalf("number %d, %v; expected %d", id, err, want)
		}
		return key
	}
	if _, _, err := n.Commit(prepared(1)); err != nil {
		t.Fatal(err)
	}
	if err := n.Undo(prepared(2)); err != nil {
		t.Fatal(err)
	}
	if err := n.Unload(1); err != nil {
		t.Fatal(err)
	}
	prepared(1)
}

// An initialisation is charged like a message. A program that its initialisation stops for a limit
// is counted as stopped. One whose initialisation is aborted for another reason is not.
func TestAnInitialisationIsChargedLikeAMessage(t *testing.T) { // PANIC-5
	for body, stopped := range map[string]uint64{"WHILE 1 DO n = n + 1": 1, "DISPLAY 1 / n": 0, "n = 1": 0} {
		n := newNIC(t)
		n.put(5, "PROGRAM p: VAR n; TRIGGERS 1; BEGIN "+body+" END; MESSAGE 1: BEGIN END; END;")
		if got := n.counts[vni.NICProgramsStopped]; got != stopped {
			t.Errorf("%s: %d programs are counted as stopped; expected %d", body, got, stopped)
		}
		spent := -n.Credit()
		if least := limits.ProgramDispatch + 1; spent < least || stopped > 0 && spent < limits.ProgramBudget {
			t.Errorf("%s: it is charged for %d instructions", body, spent)
		}
	}
}

// A program inherits the profile of the one that it replaces. If its budget stopped that one, the
// table does not count the program's own STOP as another such stop.
func TestAStopAfterAnotherVersionsAbortIsNotCounted(t *testing.T) { // PANIC-5
	n := newNIC(t)
	n.put(5, "PROGRAM p: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN WHILE 1 DO n = n + 1 END; END;")
	n.message()
	n.put(5, "PROGRAM p: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN STOP END; END;", replacing)
	n.message()
	if info, _ := n.Info(5); info.State() != "stopped" || n.counts[vni.NICProgramsStopped] != 1 {
		t.Errorf("it is %s, and %d are counted as stopped; expected 1", info.State(), n.counts[vni.NICProgramsStopped])
	}
}

// Two readings of the clock take longer than many activations, so an activation that is not timed
// reads none.
func TestMostActivationsReadNoClock(t *testing.T) {
	n := newNIC(t)
	n.put(5, clocked, resident)
	for range timedWhole {
		n.activate(5, 1)
	}
	n.engine.step = time.Nanosecond
	before := n.engine.now
	const most = 16 * timedEvery
	for range most {
		n.activate(5, 1)
	}
	if read := int(n.engine.now.Sub(before)); read == 0 || read > 3*most/timedEvery {
		t.Errorf("%d activations have read the clock %d times; expected 2 in %d", most, read, timedEvery)
	}
}

// Messages that programs send within their NIC have a bounded room.
func TestSENDsWithinTheNICFillTheQueueToItsLimit(t *testing.T) {
	n := newNIC(t)
	n.put(5, shower)
	sent, to := 0, vm.Destination{Program: 5, Trigger: 1}
	for h := (*host)(n.Table); h.Send(6, to, make([]byte, prog.MaxMessage)); sent++ {
		n.sends = 0 // each in an activation of its own
		if err := n.Audit(); err != nil {
			t.Fatal(err)
		}
	}
	want, refused := limits.ProgramQueue/cost(prog.MaxMessage), n.counts[vni.NICProgramSendsRefused]
	if sent != want || refused != 1 {
		t.Errorf("%d messages are taken, %d refused; expected %d and 1", sent, refused, want)
	}
}

// A name that no program here has stands for no program of this NIC.
func TestAGroupWithoutProgramsHasNoMembers(t *testing.T) {
	n := newNIC(t)
	n.put(5, shower)
	(*host)(n.Table).Members(5, "group", func(d vm.Destination) { t.Errorf("the group has the member %+v", d) })
}

// If a record for a peer has no room, the peer is not told, and no number of a record is used.
func TestNewsWithoutRoomUseNoNumber(t *testing.T) {
	n := newNIC(t)
	n.put(5, shower)
	if n.tell(&Peer{}, n.loaded[5], false); n.news != 0 {
		t.Errorf("%d records are counted", n.news)
	}
}

// If a peer's programs need room, the program that has been gone for longest is forgotten. Older
// news of the others may be in flight.
func TestTheProgramThatHasBeenGoneForLongestIsForgotten(t *testing.T) {
	for _, first := range []uint32{100, 1<<32 - 10} { // the numbers of records go round
		pr := &Peer{programs: map[vm.ID]announced{99: {name: "stays", number: first - 1}}}
		for i := range uint32(20) {
			pr.programs[vm.ID(1+(i*7+3)%20)] = announced{number: first + i}
		}
		for i := range uint32(20) {
			oldest := vm.ID(1 + (i*7+3)%20)
			forgotten := pr.forgetGone()
			if _, kept := pr.programs[oldest]; !forgotten || kept || len(pr.programs) != 20-int(i) {
				t.Fatalf("from record %d on: program %d, the oldest, is kept; %d are known", first, oldest, len(pr.programs))
			}
		}
		if pr.forgetGone() || pr.programs[99].name != "stays" {
			t.Errorf("from record %d on: a program that is there is forgotten", first)
		}
	}
}

// The audit of the table includes that of the machine.
func TestTheAuditFindsProgramsThatOverlapInTheMachine(t *testing.T) {
	n := newNIC(t)
	n.Table = New(Config{NIC: ownNIC, Counts: n.counts, Defect: mutate.DataOverlap}, n.engine)
	n.put(5, oldSource)
	n.put(6, oldSource)
	if err := n.Audit(); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("%v; expected programs that overlap", err)
	}
}
