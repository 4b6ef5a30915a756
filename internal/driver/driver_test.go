package driver

import (
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

func TestAnEntryIsTakenThatWasUsedLongestAgo(t *testing.T) { // QNIX-60
	d := NewQueue(4).Driver()
	take := func(want ...uint16) {
		t.Helper()
		var got []uint16
		for range want {
			i, ok := d.Take(7)
			if !ok {
				t.Fatalf("no entry is free after %v; want %v", got, want)
			}
			got = append(got, i)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("took %v; want %v", got, want)
		}
	}
	take(1, 2)
	d.GiveBack(1)
	take(3, 4, 1) // not 1 yet, though it is free
	if i, ok := d.Take(7); ok {
		t.Fatalf("took %d of a table that is full", i)
	}
	d.GiveBack(4)
	d.GiveBack(2)
	take(2, 4)
	d.GiveBack(3)
	if used, of := d.Taken(); used != 3 || of != 4 {
		t.Errorf("%d of %d entries are taken; want 3 of 4", used, of)
	}
	take(3)
}

func TestAProcessWithoutAKnownPIDTakesItsEntryAllTheSame(t *testing.T) {
	d := NewQueue(2).Driver()
	a, _ := d.Take(0)
	if b, ok := d.Take(0); !ok || a == b {
		t.Errorf("took entries %d and %d, %v", a, b, ok)
	}
}

func TestAnEntryThatIsGivenBackKeepsNothingOfItsProcess(t *testing.T) { // QNIX-36
	q := NewQueue(2)
	d, n := q.Driver(), q.NIC()
	i, _ := d.Take(1)
	d.Tie(i, Entry{WakeUp: func() {}})
	if n.Entry(i).WakeUp == nil {
		t.Error("what was tied to an entry is not there")
	}
	if d.GiveBack(i); n.Entry(i).WakeUp != nil {
		t.Error("an entry that was given back still has the doorbell info of its process")
	}
}

func TestCommandsAreReadInOrderAndTheHeadIsToldEveryEight(t *testing.T) { // QNIX-51, QNIX-59
	q := NewQueue(1 << 10)
	d, n := q.Driver(), q.NIC()
	serial := uint16(0)
	for round := range 100 {
		posted := 0
		for {
			if _, ok := d.Post(Command{Code: NewProcess, Index: serial + uint16(posted), PID: uint32(posted) + 1}); !ok {
				break
			}
			posted++
		}
		// One entry stays empty, and the head may be seven late (QNIX-A4).
		if posted < limits.DriverCommands-8 {
			t.Fatalf("round %d: only %d commands find room", round, posted)
		}
		if p, of := d.Pending(); p != posted || of != limits.DriverCommands {
			t.Fatalf("round %d: %d of %d commands are pending; %d were posted", round, p, of, posted)
		}
		for i := range posted {
			told := q.head.Load()
			c, at, ok := n.Next()
			if !ok || c != (Command{Code: NewProcess, Index: serial, PID: uint32(i) + 1}) {
				t.Fatalf("round %d: command %d is %+v, %v", round, i, c, ok)
			}
			if moved := q.head.Load() != told; moved != (q.head.Load() == n.head && n.head%HeadBatch == 0) {
				t.Fatalf("round %d: the head is told: %v, after %d commands", round, moved, n.head)
			}
			n.Ring(at, Result{Gen: uint32(serial)})
			if r, ok := d.Answered(at); !ok || r.Gen != uint32(serial) {
				t.Fatalf("round %d: the answer is %+v, %v", round, r, ok)
			}
			serial++
		}
		if c, _, ok := n.Next(); ok {
			t.Fatalf("round %d: an empty queue has %+v", round, c)
		}
	}
}

func TestACommandMayBeAnsweredAfterThoseBehindIt(t *testing.T) {
	q := NewQueue(4)
	d, n := q.Driver(), q.NIC()
	slow, _ := d.Post(Command{Code: NewProcess, Index: 1})
	n.Next()
	others := 0
	for { // until the ring returns to it
		at, ok := d.Post(Command{Code: DeleteProcess, Index: 2})
		if !ok {
			break
		}
		others++
		if _, read, ok := n.Next(); !ok || read != at {
			t.Fatalf("command at %d is read at %d, %v", at, read, ok)
		}
		n.Ring(at, Result{})
		if _, ok := d.Answered(at); !ok {
			t.Fatal("a command is answered and its doorbell is not Done")
		}
	}
	if others != limits.DriverCommands-1 {
		t.Errorf("%d commands pass one that is not answered; want %d", others, limits.DriverCommands-1)
	}
	if _, ok := d.Answered(slow); ok {
		t.Error("a command that is not answered has a result")
	}
	n.Ring(slow, Result{Gen: 9})
	if r, ok := d.Answered(slow); !ok || r.Gen != 9 {
		t.Errorf("its answer is %+v, %v", r, ok)
	}
	if _, ok := d.Post(Command{Code: DeleteProcess, Index: 2}); !ok {
		t.Error("there is still no room")
	}
}

func TestASecondAnswerIsABug(t *testing.T) {
	q := NewQueue(1)
	d, n := q.Driver(), q.NIC()
	at, _ := d.Post(Command{Code: DeleteProcess})
	n.Next()
	n.Ring(at, Result{})
	defer func() {
		if recover() == nil {
			t.Error("the second answer does not panic")
		}
		if b := d.Doorbell(at); b != vni.Done {
			t.Errorf("the doorbell is %v", b)
		}
	}()
	n.Ring(at, Result{})
}
