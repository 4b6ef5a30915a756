package program

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// The id of this NIC means this NIC, as 0 does. An unknown NIC cannot be reached.
func TestTheIDOfThisNICMeansThisNIC(t *testing.T) {
	n, e := newNeighbour(t)
	n.put(5, shower)
	for i, nic := range []uint64{0, ownNIC} {
		quick, asks := &command{}, &command{}
		n.Command(quick, vm.Destination{NIC: nic, Program: 5, Trigger: 1}, 8, false)
		n.Command(asks, vm.Destination{NIC: nic, Program: 5, Trigger: 1}, 8, true)
		if !(*host)(n.Table).Send(6, vm.Destination{NIC: nic, Program: 5, Trigger: 1}, nil) {
			t.Errorf("a SEND to NIC %d is refused", nic)
		}
		if id, ok := n.Lookup(prog.ProgramName, "p", nic); !ok || id != 5 {
			t.Errorf("p at NIC %d is %d, %v", nic, id, ok)
		}
		if _, told := e.told[asks]; told || e.ended[quick] != vni.StatusOK || n.Quiet() {
			t.Errorf("NIC %d: told %v before the message is handled; quiet %v", nic, told, n.Quiet())
		}
		n.run(5)
		if len(n.shown(5)) != 3*(i+1) || e.told[asks] != vm.Awaiting || !n.Quiet() || n.Leaks() != nil || e.taken != 0 {
			t.Errorf("NIC %d: %d messages were handled, told %v, quiet %v, %v, %d buffers in use", nic, len(n.shown(5)), e.told[asks], n.Quiet(), n.Leaks(), e.taken)
		}
	}
	lost := &command{}
	n.Command(lost, vm.Destination{NIC: 99, Program: 5, Trigger: 1}, 8, true)
	if e.ended[lost] != vni.StatusUnreachable || lost.reads != 0 || len(n.asked) != 0 || (*host)(n.Table).Send(6, vm.Destination{NIC: 99, Program: 5}, nil) {
		t.Errorf("a NIC that is not known: %v, %d answers are due", e.ended[lost], len(n.asked))
	}
}

// The NIC is quiet when no message and no command waits, and no answer is due.
func TestTheNICIsQuietWhenNothingIsUnderWay(t *testing.T) {
	n, e := newNeighbour(t)
	n.put(5, shower)
	far, near := vm.Destination{NIC: 9, Program: 5, Trigger: 1}, vm.Destination{Program: 5, Trigger: 1}
	asks := &command{}
	if n.Command(asks, far, 8, true); n.Quiet() || n.Leaks() == nil || e.Peer(9).Leaks() == nil {
		t.Errorf("an answer is due, and it is quiet: %v, %v, %v", n.Quiet(), n.Leaks(), e.Peer(9).Leaks())
	}
	other := &command{}
	n.Forget(other) // an unknown command
	if len(n.asked) != 1 {
		t.Error("the end of another command ends the wait for an answer")
	}
	if n.Forget(asks); !n.Quiet() || n.Leaks() != nil {
		t.Errorf("no answer is awaited, and it is not quiet: %v", n.Leaks())
	}
	waits := &command{}
	for n.hasRoom(prog.MaxMessage) {
		n.Command(&command{}, near, prog.MaxMessage, false)
	}
	n.Command(waits, near, prog.MaxMessage, false)
	for n.Pending() > 0 {
		n.freeMessage(n.pop())
	}
	if n.Quiet() {
		t.Error("a command waits, and it is quiet")
	}
	if n.Forget(waits); !n.Quiet() {
		t.Error("the command is given up, and it is not quiet")
	}
}

// An observer may leave out any function.
func TestAnObserverMayLeaveOutAnyFunction(t *testing.T) {
	n := newNIC(t)
	if err := n.AddSegment(1, vni.AlignedBytes(8+SegmentTail)); err != nil {
		t.Fatal(err)
	}
	n.Observe(&Observer{})
	n.put(5, `PROGRAM p: VAR v; TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN DISPLAY v; DELIVER v OFFSET 0 INTO 1 LEN 1; SEND v LEN 1 AS 2 TO 6; SEND v LEN 1 AS 2 TO 6 AT 99 END; END;`)
	if err := n.Post(5, 1, nil); err != nil {
		t.Fatal(err)
	}
	n.run(5)
	if len(n.shown(5)) != 1 || n.counts[vni.NICProgramSends] != 1 || n.counts[vni.NICProgramSendsRefused] != 1 || n.counts[vni.NICProgramAborts] != 1 || n.counts[vni.NICProgramMessages] != 2 || n.counts[vni.NICProgramsUnknown] != 1 {
		t.Errorf("%d sent, %d refused, %d aborts, %d messages, %d for no program", n.counts[vni.NICProgramSends], n.counts[vni.NICProgramSendsRefused],
			n.counts[vni.NICProgramAborts], n.counts[vni.NICProgramMessages], n.counts[vni.NICProgramsUnknown])
	}
}

// While the credit is used up, nothing is handled. An activation may drive it below zero, and the
// NIC's other work pays for it.
func TestNothingIsHandledWithoutCredit(t *testing.T) { // PANIC-5
	n := newNIC(t)
	n.put(5, shower)
	for _, c := range []struct {
		credit, work, want int
	}{{0, 1, 1}, {-limits.ProgramShare, 1, 0}, {-limits.ProgramShare + 1, 1, 1}, {-2 * limits.ProgramPoll, 1, 0}, {-2 * limits.ProgramPoll, 0, 1}} {
		if err := n.Post(5, 1, nil); err != nil {
			t.Fatal(err)
		}
		n.credit = c.credit
		if got := n.Run(c.work); got != c.want {
			t.Errorf("with a credit of %d and %d things done, %d messages are handled; expected %d", c.credit, c.work, got, c.want)
		}
		n.run(5)
	}
	n.credit = limits.ProgramPoll
	if n.Run(1000); n.Credit() != limits.ProgramPoll {
		t.Errorf("a NIC that does much has earned %d; at most %d", n.Credit(), limits.ProgramPoll)
	}
}

// The longest name is accepted, and a longer name is not.
func TestTheLongestNameOfAProgramIsTold(t *testing.T) {
	_, e, tell := newTeller(t)
	longest := strings.Repeat("n", prog.MaxName)
	tell(5, longest, false)
	n := newNIC(t)
	var pr Peer
	if !n.Take(&pr, e.news[0]) || pr.names[longest] != 5 {
		t.Errorf("the names are %v", pr.names)
	}
	for at, value := range map[int]byte{0: wire.TableProgram + 1, 1: 0xfc, 2: 1, 3: 1} {
		b := append([]byte(nil), e.news[0]...)
		if b[at] |= value; n.Take(&pr, b) {
			t.Errorf("a record with byte %d = %d is taken", at, b[at])
		}
	}
	if n.Take(&pr, append(e.news[0], 0)) {
		t.Error("a record that is too long is taken")
	}
}

// A program that names no process guards nothing, whatever direction its loader asks for.
func TestOutgoingWithoutAGuardIsNoGate(t *testing.T) {
	n := newNIC(t)
	n.put(5, oddSource, func(s *Spec) { s.Outgoing, s.Trigger = true, 1 })
	n.put(6, evenSource, func(s *Spec) { s.Outgoing, s.Trigger = true, 1 })
	if len(n.guards) != 0 || len(n.engine.ways) != 0 || n.Audit() != nil {
		t.Errorf("%d gates are guarded: %v", len(n.guards), n.Audit())
	}
	n.put(5, oddSource, replacing, guarding(guardedName))
	n.wantPassed("as a guard", guardedName, 1)
	if err := errors.Join(n.Unload(5), n.Unload(6)); err != nil || len(n.guards) != 0 {
		t.Errorf("%v; %d gates are guarded", err, len(n.guards))
	}
}
