package program

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// toProcess returns the destination of a process of the other NIC.
func (n *linkedNIC) toProcess(trigger uint32) vm.Destination {
	return vm.Destination{NIC: n.peer.NIC(), Program: ProcessNumber(3, 4), Trigger: trigger}
}

// post begins a command of a process whose message has n distinctive bytes.
func (n *linkedNIC) post(to vm.Destination, length int, answer bool) *process {
	p := &process{message: make([]byte, length)}
	for i := range p.message {
		p.message[i] = byte(i*7 + length)
	}
	n.Command(p, to, length, answer)
	return p
}

// lengths are those around the capacity of one, two and three records, and the least and the
// most.
func (n *linkedNIC) lengths() []int {
	one := n.peer.MaxRecord(wire.Command) - wire.ProgramLen
	return []int{0, 1, one - 1, one, one + 1, 2 * one, 2*one + 1, 3 * one, 4000, prog.MaxMessage - 1, prog.MaxMessage}
}

// The messages of processes and programs arrive once, whole and in order, whether the session is
// open or not. The command of a process ends when its memory is free, or with the outcome if it
// asks for that.
func TestMessagesForAnotherNICArriveWholeAndInOrder(t *testing.T) { // PANIC-15, PANIC-18
	for _, open := range []bool{false, true} {
		for _, answer := range []bool{false, true} {
			f := newTwo(t)
			a, b := f.nics[0], f.nics[1]
			if open {
				f.connect()
			}
			var all []*process
			for i, length := range a.lengths() {
				all = append(all, a.post(a.toProcess(uint32(i)), length, answer))
				if !(*host)(a.Table).Send(77, a.toProcess(uint32(i)), all[i].message) {
					t.Fatalf("a SEND of %d bytes is refused", length)
				}
			}
			f.until("all messages have come", func() bool { return len(b.given) >= 2*len(all) })
			f.run(1e6)
			for i, m := range b.given {
				p := all[i/2]
				if from := vm.ID(77 * (i % 2)); m.NIC != ownNIC || m.From != from || m.Trigger != uint32(i/2) || !bytes.Equal(m.Payload, p.message) {
					t.Errorf("open %v, answer %v: message %d, of %d bytes, is %d bytes of %d at NIC %d with trigger %d",
						open, answer, i, len(p.message), len(m.Payload), m.From, m.NIC, m.Trigger)
				}
			}
			for _, p := range all {
				status, ended := a.ended[p]
				outcome, told := a.told[p]
				if ended == answer || told != answer || status != vni.StatusOK || answer && outcome != vm.Awaiting {
					t.Errorf("open %v, answer %v: a command of %d bytes has ended %v with %v, and was told %v %v", open, answer, len(p.message), ended, status, told, outcome)
				}
			}
			if len(b.given) != 2*len(all) {
				t.Errorf("open %v: %d messages came; expected %d", open, len(b.given), 2*len(all))
			}
			f.wantNothingLeft("afterwards")
		}
	}
}

// A process learns the outcome of its message at the other NIC.
func TestTheOutcomeAtAnotherNICIsTold(t *testing.T) { // PANIC-22
	f, a, b := newOpen(t)
	b.put(5, "PROGRAM p: VAR z; TRIGGERS 1, 2, 3; BEGIN END; MESSAGE 1: BEGIN END; MESSAGE 2: BEGIN DISPLAY 1 / z END; MESSAGE 3: BEGIN STOP END; END;")
	b.deaf = true
	for _, c := range []struct {
		program vm.ID
		trigger uint32
		want    vm.Outcome
	}{{5, 1, vm.Awaiting}, {5, 9, vm.NoTrigger}, {6, 1, vm.NoProgram}, {5, 2, vm.Aborted}, {5, 3, vm.Stopped}, {5, 1, vm.Inactive}, {ProcessNumber(1, 1), 1, vm.NoProgram}} {
		p := a.post(vm.Destination{NIC: b.cfg.NIC, Program: c.program, Trigger: c.trigger}, 8, true)
		f.until("the outcome is told", func() bool { _, told := a.told[p]; return told })
		if got := a.told[p]; got != c.want {
			t.Errorf("trigger %d of program %d: %v; expected %v", c.trigger, c.program, got, c.want)
		}
	}
	f.wantNothingLeft("afterwards")
}

// The bytes in flight to a NIC are bounded, and so are those that wait for it. Commands beyond
// wait with their processes, and a SEND is refused.
func TestWhatIsOnItsWayToAnotherNICIsBounded(t *testing.T) { // PANIC-18
	// the first fills the window and the room to wait
	for _, length := range []int{1024 - limits.ProgramOverhead, 1000, prog.MaxMessage} {
		f, a, b := newOpen(t)
		b.idle = true
		pr, most := a.peer, 40+(limits.ProgramWindow+limits.ProgramWaiting)/cost(length)
		var all []*process
		for range most {
			all = append(all, a.post(a.toProcess(1), length, false))
		}
		f.run(1e9)
		if full := limits.ProgramWindow / cost(length) * cost(length); pr.inFlight != full || b.peer.used != full {
			t.Errorf("%d bytes are in flight, and NIC 2 has %d; expected %d", pr.inFlight, b.peer.used, full)
		}
		if full := limits.ProgramWaiting / cost(length) * cost(length); pr.waiting != full || len(pr.held) == 0 {
			t.Errorf("%d bytes wait, and %d commands; expected %d", pr.waiting, len(pr.held), full)
		}
		if (*host)(a.Table).Send(77, a.toProcess(2), make([]byte, length)) || a.counts[vni.NICProgramSendsRefused] != 1 {
			t.Error("a SEND is taken, though nothing more may wait")
		}
		if ended := len(a.ended); ended != most-len(pr.held) {
			t.Errorf("%d of %d commands have ended, and %d are held", ended, most, len(pr.held))
		}
		b.idle = false
		f.until("all messages have come", func() bool { return len(b.given) == most })
		f.run(1e8)
		if len(a.ended) != most || slices.ContainsFunc(all, func(p *process) bool { return a.ended[p] != vni.StatusOK }) {
			t.Errorf("%d of %d commands have ended", len(a.ended), most)
		}
		f.wantNothingLeft("afterwards")
	}
}

// A program's message does not overtake messages that wait for the window, even if it would fit
// there.
func TestASENDWaitsBehindWhatWaits(t *testing.T) {
	f, a, b := newOpen(t)
	b.idle = true
	most := 2 + limits.ProgramWindow/cost(prog.MaxMessage)
	for range most {
		a.post(a.toProcess(1), prog.MaxMessage, false)
	}
	f.run(1e9)
	waiting, inFlight := len(a.peer.out), a.peer.inFlight
	if !(*host)(a.Table).Send(77, a.toProcess(2), nil) || inFlight+cost(0) > limits.ProgramWindow {
		t.Fatal("a SEND is refused, or would not fit")
	}
	if len(a.peer.out) != waiting+1 || a.peer.inFlight != inFlight {
		t.Errorf("%d messages wait, %d bytes are in flight; expected %d and %d", len(a.peer.out), a.peer.inFlight, waiting+1, inFlight)
	}
	b.idle = false
	f.until("all messages have come", func() bool { return len(b.given) == most+1 })
	f.run(1e8)
	f.wantNothingLeft("afterwards")
}

// While frames are lost rel accepts no more. The rest of a message goes on when it does.
func TestMessagesGoOnWhenTheLinkTakesMore(t *testing.T) {
	f, a, b := newOpen(t)
	f.cut = true
	const most = 7
	for i := range most {
		a.post(a.toProcess(uint32(i)), prog.MaxMessage, true)
	}
	if len(a.peer.out) == 0 || !a.peer.out[0].in {
		t.Fatal("rel takes all that the window allows, so the test shows nothing")
	}
	if !(*host)(a.Table).Send(77, a.toProcess(most), []byte{1}) {
		t.Fatal("a SEND is refused, though there is room for it to wait")
	}
	f.run(1e8)
	f.cut = false
	f.until("all messages have come", func() bool { return len(b.given) == most+1 && len(a.told) == most })
	seen := make(map[uint32]int) // lost frames arrive later, so messages arrive in any order
	for _, m := range b.given {
		seen[m.Trigger]++
	}
	if len(seen) != most+1 {
		t.Errorf("the messages that have come: %v", seen)
	}
	f.run(1e8)
	f.wantNothingLeft("afterwards")
}

// A message that has its room in the window goes on when the link takes more, even if no other
// message would fit the window.
func TestAMessageInAFullWindowGoesOnWhenTheLinkTakesMore(t *testing.T) {
	const fit = limits.ProgramWindow / (prog.MaxMessage + limits.ProgramOverhead)
	unsent := false // the last message that fits has waited for the link, in one round
	for late := 1; late <= 7; late++ {
		f, a, b := newOpen(t)
		b.idle = true // and returns no room
		for k := range fit {
			if k == fit-late {
				f.run(1e9)
				f.cut = true
			}
			a.post(a.toProcess(1), prog.MaxMessage, false)
		}
		if len(a.peer.out) == 1 && a.peer.out[0].in {
			unsent = true
		}
		f.cut = false
		what := fmt.Sprintf("all messages come, the last %d of them late", late)
		f.until(what, func() bool { return b.Pending() == fit })
	}
	if !unsent {
		t.Error("rel has taken each last message at once, so the test shows nothing")
	}
}

// A message for a resident program arrives with its bytes, and its command ends at once.
func TestADatagramForAResidentProgramCarriesItsMessage(t *testing.T) {
	f, a, b := newOpen(t)
	b.put(5, "PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY PACKET[0] END; END;", resident)
	f.run(1e8)
	p := &process{message: words(4711)}
	a.Command(p, a.at(5), len(p.message), false)
	if status, ended := a.ended[p]; !ended || status != vni.StatusOK {
		t.Errorf("the command has ended %v, with %v", ended, status)
	}
	if !(*host)(a.Table).Send(77, a.at(5), words(4712)) {
		t.Error("the SEND is refused")
	}
	f.run(1e8)
	if got := b.shown(5); !slices.Equal(got, []int64{4711, 4712}) {
		t.Errorf("the program displays %v", got)
	}
}

// A program's messages leave at once as long as the window has room for them, to its last byte.
func TestASENDLeavesAtOnceWhileTheWindowHasRoom(t *testing.T) {
	f, a, b := newOpen(t)
	b.idle = true
	const length = 1024 - limits.ProgramOverhead
	for k := range limits.ProgramWindow / 1024 {
		if !(*host)(a.Table).Send(77, a.toProcess(1), make([]byte, length)) || a.Unsent() || a.taken != 0 {
			t.Fatalf("SEND %d waits with %d bytes in flight", k+1, a.peer.inFlight)
		}
		f.run(1e6)
	}
	if !(*host)(a.Table).Send(77, a.toProcess(1), nil) || !a.Unsent() || a.peer.inFlight != limits.ProgramWindow {
		t.Errorf("a SEND beyond the window does not wait; %d bytes are in flight", a.peer.inFlight)
	}
	b.idle = false
	f.until("all messages have come", func() bool { return len(b.given) == limits.ProgramWindow/1024+1 })
	f.run(1e8)
	f.wantNothingLeft("afterwards")
}

// A NIC that owes no answers returns room when there is enough for a record: half a window.
func TestRoomIsGivenBackByHalvesOfTheWindow(t *testing.T) { // PANIC-18
	f, a, b := newOpen(t)
	const length = 1000
	sent := 0
	for ; a.peer.inFlight+cost(length) < limits.ProgramWindow/2; sent++ {
		a.post(a.toProcess(1), length, false)
		f.run(1e6)
	}
	if len(b.given) != sent || a.peer.inFlight != sent*cost(length) {
		t.Fatalf("%d of %d messages have come, and %d bytes are in flight", len(b.given), sent, a.peer.inFlight)
	}
	a.post(a.toProcess(1), limits.ProgramWindow/2-a.peer.inFlight-limits.ProgramOverhead, false)
	f.run(1e7)
	if a.peer.inFlight != 0 || b.peer.owed != 0 || b.peer.used != 0 {
		t.Errorf("%d bytes are in flight and %d owed when half a window was handled", a.peer.inFlight, b.peer.owed)
	}
	f.wantNothingLeft("afterwards")
}
