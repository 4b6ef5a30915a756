package program

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// A tool that shows the actions of programs sees each action once, and the cause of a stop with
// its message.
func TestAnObserverIsToldWhatProgramsDo(t *testing.T) {
	n := newNIC(t)
	mem := vni.AlignedBytes(8 + SegmentTail)
	if err := n.AddSegment(1, mem); err != nil {
		t.Fatal(err)
	}
	var told []string
	note := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	n.Observe(&Observer{
		Handled: func(m *vm.Message, o vm.Outcome) { note("%d to %d: %v", m.Trigger, m.Program, o) },
		Sent: func(from vm.ID, to vm.Destination, b []byte, ok bool) {
			note("%d sends %x to %d: %v", from, b, to.Program, ok)
		},
		Delivered: func(tr vm.Transfer, b []byte) { note("%d delivers %x to %d", tr.Program, b, tr.Segment) },
		Displayed: func(from vm.ID, v int64) { note("%d displays %d", from, v) },
	})
	n.put(5, `PROGRAM p: VAR v; TRIGGERS 1; BEGIN END;
MESSAGE 1: BEGIN v = 7; DISPLAY v; DELIVER v OFFSET 0 INTO 1 LEN 1; SEND v LEN 1 AS 2 TO 6; SEND v LEN 1 AS 2 TO 6 AT 99 END; END;`)
	if err := n.Post(5, 1, nil); err != nil {
		t.Fatal(err)
	}
	n.run(10)
	want := []string{"5 displays 7", "5 delivers 07 to 1", "5 sends 07 to 6: true", "5 sends 07 to 6: false", "1 to 5: aborted", "2 to 6: no such program"}
	if !slices.Equal(told, want) {
		t.Errorf("the observer was told %q, expected %q", told, want)
	}
}

// A tool that ends after a number of messages leaves the others in the queue.
func TestAnObserverHoldsMessagesBack(t *testing.T) {
	n := newNIC(t)
	n.put(5, "PROGRAM p: VAR v; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN v = v + 1; DISPLAY v END; END;")
	for range 3 {
		if err := n.Post(5, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	handled := 0
	n.Observe(&Observer{More: func() bool { return handled < 2 }, Handled: func(*vm.Message, vm.Outcome) { handled++ }})
	n.run(10)
	if handled != 2 || n.Pending() != 1 {
		t.Errorf("%d messages were handled, and %d wait; expected 2 and 1", handled, n.Pending())
	}
	n.Observe(nil)
	n.run(10)
	if got := n.shown(5); !slices.Equal(got, []int64{1, 2, 3}) || n.Pending() != 0 {
		t.Errorf("without the observer, the program displays %v", got)
	}
}

// A tool may give activations another budget than a NIC in service does.
func TestATableHasTheBudgetThatIsSet(t *testing.T) {
	n := newNIC(t)
	n.SetBudget(100)
	n.put(5, "PROGRAM p: VAR v; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN WHILE v >= 0 DO v = v + 1 END; END;")
	if err := n.Post(5, 1, nil); err != nil {
		t.Fatal(err)
	}
	n.run(2)
	if info, _ := n.Info(5); info.LastAbort != vm.OutOfBudget || info.Profile.Instructions > 102 {
		t.Errorf("%d instructions were executed, and the last error is %v", info.Profile.Instructions, info.LastAbort)
	}
}
