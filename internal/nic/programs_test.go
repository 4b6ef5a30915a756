package nic

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl"
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

// toProgram starts a message of words to trigger 1 of a program.
func (p *tester) toProgram(at *Engine, id vm.ID, flags uint32, words ...int64) int {
	var data []byte
	for _, w := range words {
		data = binary.LittleEndian.AppendUint64(data, uint64(w))
	}
	return p.start(vni.CodeProgram, &vni.SendContext{NIC: at.ID(), Gen: uint32(id), Tag: 1, Flags: flags | vni.WantNotify}, data)
}

// shows waits until a program has displayed some values.
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
