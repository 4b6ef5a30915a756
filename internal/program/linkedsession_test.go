package program

import (
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// sessions is a driver that records the NICs with an open session.
type sessions struct{ open []uint64 }

func (s *sessions) Session(nic uint64, _ rel.DriverKeys) { s.open = append(s.open, nic) }
func (s *sessions) EndSession(nic uint64) {
	s.open = slices.DeleteFunc(s.open, func(other uint64) bool { return other == nic })
}

// end cuts the NICs off until each has given the other up.
func (f *two) end() {
	f.t.Helper()
	f.cut = true
	before := [2]int{f.nics[0].ends, f.nics[1].ends}
	for _, n := range f.nics {
		n.peer.Watch(1)
	}
	f.until("each has given up the other", func() bool { return f.nics[0].ends > before[0] && f.nics[1].ends > before[1] })
	for _, n := range f.nics {
		n.peer.Watch(-1)
	}
	f.cut = false
}

// A session that ends discards everything in flight. Every command ends once, and the next
// session begins with a whole window.
func TestTheNextSessionOwesNothingOfTheLast(t *testing.T) {
	for _, answer := range []bool{false, true} {
		f, a, b := newOpen(t)
		b.idle = true
		most := 3 + (limits.ProgramWindow+limits.ProgramWaiting)/cost(prog.MaxMessage)
		var all []*process
		for range most {
			all = append(all, a.post(a.toProcess(1), prog.MaxMessage, answer))
		}
		f.run(1e9)
		queued := b.Pending()
		if queued == 0 || len(a.peer.held) == 0 || len(a.peer.out) == 0 {
			t.Fatalf("%d messages have come, %d wait, %d commands are held", queued, len(a.peer.out), len(a.peer.held))
		}
		out, held := len(a.peer.out), len(a.peer.held)
		f.end()
		if lost := a.counts[vni.NICProgramsLost]; int(lost) != out {
			t.Errorf("%d messages are counted as lost; expected %d", lost, out)
		}
		failed := held
		if answer {
			failed = most
		}
		for i, p := range all {
			want := vni.StatusOK
			if i >= most-failed {
				want = vni.StatusUnreachable
			}
			if status, ended := a.ended[p]; !ended || status != want {
				t.Errorf("answer %v: command %d of %d has ended %v, with %v; expected %v", answer, i, most, ended, status, want)
			}
		}
		if a.taken != 0 || len(a.asked) != 0 || a.Unsent() || b.peer.used != 0 {
			t.Errorf("%d buffers are in use, %d answers are due; NIC 2 counts %d bytes of the last session", a.taken, len(a.asked), b.peer.used)
		}
		f.connect()
		p := a.post(a.toProcess(2), prog.MaxMessage, true)
		b.idle = false // messages of the last session are handled in this one
		f.until("the message of the new session is handled", func() bool { _, told := a.told[p]; return told })
		f.run(1e8)
		if len(b.given) != queued+1 || len(a.told) != 1 {
			t.Errorf("%d messages were handled and %d outcomes told; expected %d and 1", len(b.given), len(a.told), queued+1)
		}
		f.wantNothingLeft("in the next session")
	}
}

// The driver knows each open session, including those older than the driver, and no other.
func TestTheDriverKnowsTheOpenSessions(t *testing.T) {
	f := newTwo(t)
	a, b := f.nics[0], f.nics[1]
	first, second := &sessions{}, &sessions{}
	if a.SetDriver(first); len(first.open) != 0 {
		t.Errorf("without a session, the driver is told of %v", first.open)
	}
	f.connect()
	if b.SetDriver(second); !slices.Equal(first.open, []uint64{ownNIC + 1}) || !slices.Equal(second.open, []uint64{ownNIC}) {
		t.Errorf("the drivers know the sessions with %v and %v", first.open, second.open)
	}
	if f.end(); len(first.open)+len(second.open) != 0 {
		t.Errorf("the sessions with %v and %v have ended", first.open, second.open)
	}
}

// A NIC knows the programs of another by their names, and whether they are resident, as long as
// the session lasts.
func TestANICKnowsTheProgramsOfTheOther(t *testing.T) {
	f := newTwo(t)
	a, b := f.nics[0], f.nics[1]
	there := func(when, name string, want vm.ID, isResident bool) {
		t.Helper()
		f.run(1e8)
		got, ok := a.Lookup(prog.ProgramName, name, b.cfg.NIC)
		if vm.ID(got) != want || ok != (want != 0) || a.peer.programs[want].resident != isResident {
			t.Errorf("%s: %s is program %d, %v, resident %v; expected %d and %v", when, name, got, ok, a.peer.programs[want].resident, want, isResident)
		}
	}
	source := func(name string) string {
		return "PROGRAM " + name + ": TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN END; END;"
	}
	b.put(9, source("early"))
	there("before the session", "early", 0, false)
	f.connect()
	there("when it opens", "early", 9, false)
	b.put(3, source("late"), resident)
	there("loaded later", "late", 3, true)
	b.put(3, source("other"), replacing)
	there("replaced", "late", 0, false)
	there("the replacement", "other", 3, false)
	if err := b.Unload(9); err != nil {
		t.Fatal(err)
	}
	there("unloaded", "early", 0, false)
	if _, ok := a.Lookup(prog.ProgramName, "other", 99); ok {
		t.Error("a NIC that is not known has a program")
	}
	if f.end(); len(a.peer.programs) != 0 || len(a.peer.names) != 0 {
		t.Errorf("behind the session %v are known", a.peer.programs)
	}
	b.put(4, source("between"))
	f.connect()
	there("in the next session", "other", 3, false)
	there("loaded between the sessions", "between", 4, false)
}

// A message to all programs of a name goes to each NIC with an open session, and not to its
// sender.
func TestAMessageToAllOfANameReachesEachNIC(t *testing.T) {
	f, a, b := newOpen(t)
	const source = "PROGRAM group: VAR v; TRIGGERS 1, 2; BEGIN END; MESSAGE 1: BEGIN v = 5; SEND v LEN 8 AS 2 TO group AT * END; MESSAGE 2: BEGIN DISPLAY PACKET[0] END; END;"
	a.put(5, source)
	a.put(4, source)
	b.put(6, source)
	f.run(1e8)
	if err := a.Post(5, 1, nil); err != nil {
		t.Fatal(err)
	}
	f.run(1e8)
	if !slices.Equal(a.shown(4), []int64{5}) || len(a.shown(5)) != 0 || !slices.Equal(b.shown(6), []int64{5}) {
		t.Errorf("the programs display %v, %v and %v", a.shown(4), a.shown(5), b.shown(6))
	}
	if err := a.Unload(4); err != nil {
		t.Fatal(err)
	}
	if err := a.Post(5, 1, nil); err != nil { // it now has the lowest number
		t.Fatal(err)
	}
	f.run(1e8)
	if len(a.shown(5)) != 0 || !slices.Equal(b.shown(6), []int64{5, 5}) {
		t.Errorf("the programs display %v and %v", a.shown(5), b.shown(6))
	}
	a.peer.names["group"] = 6
	f.end()
	a.peer.programs, a.peer.names = map[vm.ID]announced{6: {name: "group"}}, directory{"group": 6}
	(*host)(a.Table).Members(5, "group", func(d vm.Destination) { t.Errorf("without a session the group has a member at %+v", d) })
}

// Messages for a resident program are sent as datagrams. A command that asks for the outcome is
// still sent reliably.
func TestMessagesForAResidentProgramGoAsDatagrams(t *testing.T) {
	f, a, b := newOpen(t)
	b.put(5, shower, resident)
	f.run(1e8)
	quick := a.post(a.at(5), 20, false)
	if a.ended[quick] != vni.StatusOK || a.taken != 0 || a.peer.inFlight != 0 {
		t.Errorf("the command: %v; %d buffers are in use, %d bytes in flight", a.ended[quick], a.taken, a.peer.inFlight)
	}
	if !(*host)(a.Table).Send(77, a.at(5), make([]byte, 30)) || a.peer.inFlight != 0 {
		t.Errorf("a SEND has %d bytes in flight", a.peer.inFlight)
	}
	f.run(1e8)
	asks := a.post(a.at(5), 40, true)
	f.until("the outcome is told", func() bool { _, told := a.told[asks]; return told })
	if got := b.shown(5); !slices.Equal(got, []int64{20, 30, 40}) {
		t.Errorf("the program is given %v bytes", got)
	}
	f.wantNothingLeft("afterwards")
	b.Datagram(ownNIC, datagram(uint32(ProcessNumber(1, 1)), 8, 1, 2))
	f.run(1e8)
	if len(b.given) != 1 || !slices.Equal(b.given[0].Payload, []byte{1, 2}) || b.given[0].From != 3 || b.given[0].NIC != ownNIC {
		t.Errorf("the process is given %+v", b.given)
	}
	for k := range 2 { // without a session a datagram is lost, and the sender goes on
		if k == 0 {
			f.end()
			a.peer.programs[5] = announced{name: "p", resident: true}
		}
		p := a.post(a.at(5), 20, false)
		if a.ended[p] != vni.StatusOK || a.counts[vni.NICProgramDatagramsLost] != uint64(2*k+1) || !(*host)(a.Table).Send(77, a.at(5), nil) || a.taken != 0 {
			t.Errorf("without a session: %v, %d lost, %d buffers in use", a.ended[p], a.counts[vni.NICProgramDatagramsLost], a.taken)
		}
	}
}

// A name stands for any NIC that answers at one of its addresses.
func TestANodeIsFoundByAnyOfItsAddresses(t *testing.T) {
	_, a, b := newOpen(t)
	elsewhere := a.port.Addr()
	a.NameNode("b", 0, elsewhere, b.port.Addr())
	a.NameNode("nobody", 0, elsewhere)
	for name, want := range map[string]int64{"b": ownNIC + 1, "nobody": 0} {
		if nic, ok := a.Lookup(prog.NodeName, name, 0); nic != want || ok != (want != 0) {
			t.Errorf("%s is NIC %d, %v; expected %d", name, nic, ok, want)
		}
	}
}
