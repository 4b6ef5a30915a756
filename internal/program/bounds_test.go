package program

import (
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/vm"
)

// Messages that execute next to nothing would otherwise be free, and a stream of them would block
// the engine.
func TestEachMessageCostsItsDispatch(t *testing.T) { // PANIC-5
	n := newNIC(t)
	n.put(5, "PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN END; END;")
	n.run(1)
	for _, c := range []struct {
		what    string
		trigger uint32
	}{{"a message that executes next to nothing", 1}, {"a message for a trigger that the program does not have", 2}} {
		const messages = 10
		for range messages {
			m := n.newMessage(0)
			m.Program, m.Trigger = 5, c.trigger
			n.push(m)
		}
		n.Run(0)
		if spent := limits.ProgramPoll - n.Credit(); spent < messages*limits.ProgramDispatch {
			t.Errorf("%d times %s took %d of the credit, expected at least %d", messages, c.what, spent, messages*limits.ProgramDispatch)
		}
	}
	n.engine.process = otherName
	m := n.newMessage(0)
	m.Program = vm.ID(ProcessBit)
	n.push(m)
	n.Run(0)
	if spent := limits.ProgramPoll - n.Credit(); spent != limits.ProgramDispatch {
		t.Errorf("a message for a process took %d of the credit, expected %d", spent, limits.ProgramDispatch)
	}
}

// An activation sends ProgramSends messages and no more. The next activation may send as many
// again.
func TestAnActivationSendsNoMoreThanItMay(t *testing.T) { // PANIC-5
	n := newNIC(t)
	n.put(6, "PROGRAM sink: VAR all; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN all = all + 1 END; END;")
	n.put(5, `PROGRAM p: VAR n; TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN n = 0; WHILE n < PACKET[0] DO BEGIN n = n + 1; SEND n LEN 8 AS 1 TO 6 END; DISPLAY n END; END;`)
	var sent, refused uint64
	for _, c := range []struct{ asked, sent, refused uint64 }{
		{limits.ProgramSends, limits.ProgramSends, 0},
		{limits.ProgramSends + 1, limits.ProgramSends, 1},
		{limits.ProgramSends, limits.ProgramSends, 0},
	} {
		if err := n.Post(5, 1, words(c.asked)); err != nil {
			t.Fatal(err)
		}
		n.run(1000)
		sent, refused = sent+c.sent, refused+c.refused
		if s, r := n.counts[vni.NICProgramSends], n.counts[vni.NICProgramSendsRefused]; s != sent || r != refused {
			t.Errorf("an activation that sends %d messages: %d left and %d were refused so far, expected %d and %d", c.asked, s, r, sent, refused)
		}
	}
	if got := n.shown(5); !slices.Equal(got, []int64{limits.ProgramSends, limits.ProgramSends}) {
		t.Errorf("the activations that were not refused a message ended with %v", got)
	}
}

// A filter cannot wait for credit. It may not take more than others earn back within a poll.
func TestAFilterTakesNoMoreCreditThanAPollEarns(t *testing.T) { // PANIC-5, PANIC-7
	n := newNIC(t)
	n.put(5, "PROGRAM p: VAR i; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN i = 0; WHILE i < 2000 DO i = i + 1; PASS END; END;", guarding(guardedName))
	n.put(6, "PROGRAM other: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DISPLAY 1 END; END;")
	n.run(1)
	judge := n.engine.guards[guardedName]
	for range 50 {
		judge(ownNIC, []byte{1})
	}
	if least := -limits.ProgramPoll; n.Credit() != least {
		t.Errorf("fifty verdicts have left a credit of %d, expected %d", n.Credit(), least)
	}
	if err := n.Post(6, 1, nil); err != nil {
		t.Fatal(err)
	}
	for range limits.ProgramPoll/limits.ProgramShare + 1 {
		n.Run(1)
	}
	if got := n.shown(6); !slices.Equal(got, []int64{1}) {
		t.Errorf("another program has displayed %v when the credit of a poll was earned back, expected 1", got)
	}
}

// piece returns a record of a message from a peer, with bytes that the peer chose.
func piece(id uint32, length, offset uint16, bytes ...byte) wire.Record {
	b := make(wire.Record, wire.ProgramLen+len(bytes))
	(&wire.Program{Program: 5, Trigger: 1, ID: id, Offset: offset, Length: length}).Put(b, len(bytes))
	copy(b[wire.ProgramLen:], bytes)
	return b
}

// usedBuffers is an engine whose buffers still hold the bytes of earlier messages.
type usedBuffers struct{ *lone }

func (usedBuffers) TakeBuffer(n int) []byte { return slices.Repeat([]byte{0xee}, n) }

// A peer may send two pieces for the same place. Their lengths add up to that of the message, but
// a part of it stays unwritten. That part must not show the bytes of another message.
func TestPiecesOnOneAnotherShowNothingOfOtherMessages(t *testing.T) { // PANIC-18
	n := newNIC(t)
	n.nic = usedBuffers{n.engine}
	pr := &Peer{Endpoint: new(rel.Endpoint)}
	n.Record(pr, piece(1, 8, 0, 1, 2, 3, 4))
	n.Record(pr, piece(1, 8, 0, 5, 6, 7, 8))
	if n.Pending() != 1 {
		t.Fatalf("%d messages wait, expected one of two pieces", n.Pending())
	}
	if got := n.queue[n.head].Payload; !slices.Equal(got, []byte{5, 6, 7, 8, 0, 0, 0, 0}) {
		t.Errorf("the message is %v; expected zeros where no piece lies", got)
	}
}

// The pieces of a message agree about its length, its program and its trigger. Together they are
// no longer than it.
func TestPiecesThatDisagreeAreCountedAndDropped(t *testing.T) { // PANIC-18
	n := newNIC(t)
	pr := &Peer{Endpoint: new(rel.Endpoint)}
	n.Record(pr, piece(1, 8, 0, 1, 2, 3, 4))
	other := piece(1, 8, 4, 5, 6, 7, 8)
	other[4]++ // the program
	trigger := piece(1, 8, 4, 5, 6, 7, 8)
	trigger[8]++
	for i, bad := range []wire.Record{piece(1, 9, 4, 5, 6, 7, 8), piece(1, 8, 0, 1, 2, 3, 4, 5), other, trigger} {
		n.Record(pr, bad)
		if n.counts[vni.DropFormat] != uint64(i+1) || n.Pending() != 0 {
			t.Errorf("after piece %d: %d are counted and %d messages wait", i, n.counts[vni.DropFormat], n.Pending())
		}
	}
	n.Record(pr, piece(1, 8, 4, 5, 6, 7, 8))
	if n.Pending() != 1 || !slices.Equal(n.queue[n.head].Payload, []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("%d messages wait after the last piece, expected the one that was begun", n.Pending())
	}
}

// A peer that sends beyond its window takes no memory: neither whole messages nor first pieces.
func TestAPeerHasNoMoreThanItsWindow(t *testing.T) {
	n := newNIC(t)
	pr := &Peer{Endpoint: new(rel.Endpoint)}
	const length = 1024
	fit := limits.ProgramWindow / cost(length)
	for id := range uint32(2 * fit) {
		n.Record(pr, piece(id+1, length, 0, 1))
	}
	if len(pr.assemblies) != fit || pr.used > limits.ProgramWindow || n.counts[vni.DropFormat] != uint64(fit) {
		t.Errorf("%d messages are begun, %d bytes are used, %d are counted; expected %d, at most %d, and %d",
			len(pr.assemblies), pr.used, n.counts[vni.DropFormat], fit, limits.ProgramWindow, fit)
	}
}

// bells is an engine that records the segments that ring.
type bells struct {
	*lone
	rung []uint32
}

func (b *bells) Rang(segment uint32) { b.rung = append(b.rung, segment) }

// A process may wait until a flag is set, or until a lock is cleared. Both wake it.
func TestAProgramThatSetsAFlagOrClearsALockRings(t *testing.T) { // PANIC-24
	for _, does := range []string{"SET FLAG", "CLEAR LOCK"} {
		n := newNIC(t)
		b := &bells{lone: n.engine}
		n.nic = b
		if err := n.AddSegment(3, vni.AlignedBytes(8+SegmentTail)); err != nil {
			t.Fatal(err)
		}
		n.put(5, "PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN "+does+" PACKET[0] END; END;")
		// there is no segment 4
		for _, number := range []uint64{3*limits.SegmentWords + 7, 4 * limits.SegmentWords} {
			if err := n.Post(5, 1, words(number)); err != nil {
				t.Fatal(err)
			}
			n.run(2)
		}
		if !slices.Equal(b.rung, []uint32{3}) {
			t.Errorf("%s rings %v, expected segment 3 once", does, b.rung)
		}
	}
}
