package nic

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// load puts a program into a NIC and starts it.
func (f *fabric) load(at *Engine, id vm.ID, source string, guards vni.Name) {
	f.t.Helper()
	m, err := pdl.Compile("test", []byte(source))
	if err != nil {
		f.t.Fatal(err)
	}
	at.begin()
	if _, _, err := at.Programs().Load(program.Spec{Module: m, ID: id, Start: true, Guards: guards, Trigger: 1}); err != nil {
		f.t.Fatal(err)
	}
}

// toProgram starts a message of words to trigger 1 of a program, and returns its context.
func (p *tester) toProgram(at *Engine, id vm.ID, flags uint32, words ...int64) int {
	var data []byte
	for _, w := range words {
		data = binary.LittleEndian.AppendUint64(data, uint64(w))
	}
	return p.start(vni.CodeProgram, &vni.SendContext{NIC: at.ID(), Gen: uint32(id), Tag: 1, Flags: flags | vni.WantNotify}, data)
}

// shows waits until a program has displayed the given values.
func (f *fabric) shows(at *Engine, id vm.ID, want ...int64) {
	f.t.Helper()
	var got []int64
	f.until(time.Second, "what a program displays", func() bool {
		got, _, _ = at.Programs().Log(id, 0)
		return len(got) >= len(want)
	})
	for i, v := range got {
		if i >= len(want) || v != want[i] {
			f.t.Fatalf("program %d displays %v, want %v", id, got, want)
		}
	}
}

func TestAProcessAndAProgramSendToProgramsOfBothNICs(t *testing.T) { // PANIC-4
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	for _, e := range f.engines {
		f.load(e, 10, `PROGRAM double: VAR v; TRIGGERS 1; BEGIN END;
			MESSAGE 1: BEGIN DISPLAY PACKET[0]; v = PACKET[0] * 2; IF PACKETLEN > 8 THEN SEND v LEN 8 AS 1 TO 10 AT PACKET[1] END; END;`, vni.Name{})
	}
	here, there := a.e, b.e
	a.wantSent(a.toProgram(here, 10, 0, 3, int64(there.ID())))
	a.wantSent(a.toProgram(there, 10, vni.WantAccept, 4))
	f.shows(here, 10, 3)
	f.until(time.Second, "both messages have been handled", func() bool { return there.Count(vni.NICProgramMessages) == 2 })
	if n := here.Count(vni.NICProgramSends); n != 1 {
		t.Errorf("%d sends of a program are counted, want 1", n)
	}
	if there.Count(vni.NICProgramsNow) != 1 {
		t.Error("one program is loaded, and not counted")
	}
}

func TestAMessageToAProgramThatIsNotThereIsAnsweredAndCounted(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	for _, at := range []*Engine{a.e, b.e} {
		if c := a.finish(false, a.toProgram(at, 77, vni.WantAccept, 1)); c.Status != vni.StatusNoProgram {
			t.Errorf("a message to no program ended with %v", c.Status)
		}
		if n := at.Count(vni.NICProgramsUnknown); n != 1 {
			t.Errorf("%d messages to no program are counted", n)
		}
	}
}

// unreachable is a program in a driver whose variables cannot be read: another processor runs it
// for too long.
type unreachable struct{}

func (unreachable) Enter([]int64) error                                  { return nil }
func (unreachable) Leave() ([]int64, bool, error)                        { return nil, false, errors.New("busy") }
func (unreachable) Borrow([]int64, func(stopped bool) (stop bool)) error { return errors.New("busy") }
func (unreachable) Profile() (vm.Profile, bool, error)                   { return vm.Profile{}, false, nil }
func (unreachable) Lost() (program.Losses, error)                        { return program.Losses{}, nil }
func (unreachable) Close() error                                         { return nil }

// A message that is lost because the variables stay in the driver was not handled: its sender must
// not be told that it was.
func TestAMessageThatIsLostAtTheDriverIsNotAnsweredAsHandled(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	m, err := pdl.Compile("test", []byte("PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY 1 END; END;"))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []*Engine{a.e, b.e} {
		programs := at.Programs()
		key, _, err := programs.Prepare(program.Spec{Module: m, ID: 10, Start: true, Resident: true})
		if err == nil {
			err = programs.Reside(key, unreachable{})
		}
		if err == nil {
			_, _, err = programs.Commit(key)
		}
		if err == nil {
			err = programs.Settle(key)
		}
		if err != nil {
			t.Fatal(err)
		}
		if c := a.finish(false, a.toProgram(at, 10, vni.WantAccept, 1)); c.Status != vni.StatusProgramFailed {
			t.Errorf("it ended with %v", c.Status)
		}
	}
}

func TestAnActivationThatAbortsIsAnsweredAndCounted(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	f.load(b.e, 10, `PROGRAM divides: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY 6 / PACKET[0] END; END;`, vni.Name{})
	a.wantSent(a.toProgram(b.e, 10, vni.WantAccept, 2))
	if c := a.finish(false, a.toProgram(b.e, 10, vni.WantAccept, 0)); c.Status != vni.StatusProgramFailed {
		t.Errorf("a message whose activation aborted ended with %v", c.Status)
	}
	f.shows(b.e, 10, 3)
	if n := b.e.Count(vni.NICProgramAborts); n != 1 {
		t.Errorf("%d aborts are counted", n)
	}
}

// A name after TO is that of a program at the NIC that AT names, whatever programs other NICs have
// by that name: pong is 1 here and 7 there, and 1 there is another program.
func TestANameIsLookedUpAtTheNICThatTheMessageGoesTo(t *testing.T) { // PANIC-31
	f := newFabric(t, 3, fault.Config{})
	a, b, c := f.process(0, "a/0"), f.process(1, "b/0"), f.process(2, "c/0")
	f.known("a/0", "b/0", "c/0")
	const pong = `PROGRAM pong: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY PACKET[0] END; END;`
	f.load(a.e, 1, pong, vni.Name{})
	f.load(b.e, 7, pong, vni.Name{})
	f.load(b.e, 1, `PROGRAM victim: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY PACKET[0] END; END;`, vni.Name{})
	f.load(b.e, 8, `PROGRAM away: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY PACKET[0] END; END;`, vni.Name{})
	f.load(a.e, 8, `PROGRAM other: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY PACKET[0] END; END;`, vni.Name{})
	f.load(a.e, 20, `PROGRAM asks: TRIGGERS 1;
BEGIN END;
MESSAGE 1: BEGIN
	IF PACKET[2] = 0 THEN SEND PACKET[0] LEN 8 AS 1 TO pong AT PACKET[1];
	IF PACKET[2] = 1 THEN SEND PACKET[0] LEN 8 AS 1 TO pong;
	IF PACKET[2] = 2 THEN SEND PACKET[0] LEN 8 AS 1 TO away AT PACKET[1];
	IF PACKET[2] = 3 THEN SEND PACKET[0] LEN 8 AS 1 TO away
END;
END;`, vni.Name{})
	f.until(time.Second, "NIC a has been told of all programs", func() bool {
		_, ok := a.e.Programs().Lookup(prog.ProgramName, "away", b.e.ID())
		return ok
	})
	asks := func(word int64, at *Engine, how int64, want vni.Status) {
		t.Helper()
		if got := a.finish(false, a.toProgram(a.e, 20, vni.WantAccept, word, int64(at.ID()), how)); got.Status != want {
			t.Errorf("message %d ended with %v, want %v", word, got.Status, want)
		}
	}
	asks(100, b.e, 0, vni.StatusOK)
	asks(101, a.e, 0, vni.StatusOK)
	asks(102, a.e, 1, vni.StatusOK)
	asks(103, b.e, 2, vni.StatusOK)
	f.shows(b.e, 7, 100)
	f.shows(a.e, 1, 101, 102)
	f.shows(b.e, 8, 103)
	// If no program has the name, the message goes nowhere, and its sender is told.
	asks(104, c.e, 0, vni.StatusProgramFailed)
	asks(105, a.e, 2, vni.StatusProgramFailed)
	asks(106, a.e, 3, vni.StatusProgramFailed)
	info, _ := a.e.Programs().Info(20)
	if info.Profile.Aborts[vm.UnknownName] != 3 || a.e.Count(vni.NICProgramAborts) != 3 {
		t.Errorf("%d activations are counted as aborted for an unknown name, want 3; %d by the NIC", info.Profile.Aborts[vm.UnknownName], a.e.Count(vni.NICProgramAborts))
	}
	f.shows(b.e, 1)
	f.shows(a.e, 8)
}

// Messages that a process has not received wait in its staging. A message of a program that finds
// no room there is dropped and counted, and the program continues without being told.
func TestAMessageToAProcessWithoutRoomIsDroppedAndCounted(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(0, "b/0")
	f.known("a/0", "b/0")
	a.e.cfg.StagingBytes = 4 * int(stagedCost(8))
	f.load(a.e, 10, `PROGRAM tells: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN SEND PACKET[0] LEN 8 AS 5 TO PACKET[1]; DISPLAY PACKET[0] END; END;`, vni.Name{})
	number := int64(program.ProcessNumber(b.slot, b.gen))
	for i := range int64(6) {
		a.wantSent(a.toProgram(a.e, 10, vni.WantAccept, i, number))
	}
	f.shows(a.e, 10, 0, 1, 2, 3, 4, 5)
	f.until(time.Second, "all have been handled", func() bool { return a.e.Count(vni.NICProgramMessages) == 12 })
	if n := a.e.Count(vni.NICProgramsNoRoom); n != 2 {
		t.Errorf("%d messages without room are counted, want 2", n)
	}
	for i := range byte(4) {
		buf := make([]byte, 8)
		b.wantReceived(b.recv("", 5, vni.AnyTag, buf), buf, []byte{i, 0, 0, 0, 0, 0, 0, 0})
	}
}

func TestAProgramThatNeverEndsIsStopped(t *testing.T) { // PANIC-5
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	f.load(b.e, 10, `PROGRAM spin: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN WHILE 1 DO BEGIN END END; END;`, vni.Name{})
	if c := a.finish(false, a.toProgram(b.e, 10, vni.WantAccept)); c.Status != vni.StatusProgramFailed {
		t.Errorf("a message to a program that never ends ended with %v", c.Status)
	}
	f.stopped(b.e, 10, vm.OutOfBudget)
}

// stopped waits until a program has been stopped.
func (f *fabric) stopped(at *Engine, id vm.ID, why vm.Cause) {
	f.t.Helper()
	var i program.Info
	f.until(time.Second, "a program is stopped", func() bool {
		i, _ = at.Programs().Info(id)
		return i.State() == "stopped"
	})
	if i.LastAbort != why {
		f.t.Errorf("the program was stopped for %v, want %v", i.LastAbort, why)
	}
}

func TestAProgramThatSendsToItselfForEverIsStopped(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	f.load(b.e, 10, `PROGRAM again: VAR n; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN n = n + 1; SEND n LEN 8 AS 1 TO 10 END; END;`, vni.Name{})
	a.wantSent(a.toProgram(b.e, 10, 0))
	f.stopped(b.e, 10, vm.Recursion)
	if n := b.e.Count(vni.NICProgramsStopped); n != 1 || b.e.Count(vni.NICProgramSendsRefused) == 0 {
		t.Errorf("%d stopped programs are counted, and no send was refused", n)
	}
}

func TestAProgramThatGuardsAProcessJudgesItsMessages(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	f.load(b.e, 10, `PROGRAM even: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN IF PACKETBYTE[0] % 2 = 0 THEN PASS; DROP END; END;`, b.name)
	buf := make([]byte, 1)
	r := b.recv("", 5, 0, buf)
	a.wantSent(a.send("b/0", 5, 0, []byte{1}))
	a.wantSent(a.send("b/0", 5, 0, []byte{2}))
	b.wantReceived(r, buf, []byte{2})
	if n := b.e.Count(vni.NICProgramsFiltered); n != 2 {
		t.Errorf("%d messages were judged, want 2", n)
	}
}
