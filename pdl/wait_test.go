package pdl_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/pdl/vm/mem"
)

// late returns a NIC whose transfers end when the test says so. Its program has one trigger.
func late(t *testing.T, body string) (*mem.Fabric, *mem.NIC) {
	t.Helper()
	m, err := pdl.Compile("test.pdl", []byte("PROGRAM test: VAR a, b, done; TRIGGERS 1; BEGIN a = 7 END; MESSAGE 1: BEGIN "+body+" END; END;"))
	if err != nil {
		t.Fatal(err)
	}
	f := mem.NewFabric()
	n, err := f.Add(1, "one", vm.Config{CodeWords: 4096, DataWords: 1024, Programs: 8, Budget: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Machine.Load(1, m); err != nil {
		t.Fatal(err)
	}
	if o := n.Machine.Start(1); o != vm.Awaiting {
		t.Fatal(o)
	}
	f.Late = true
	return f, n
}

// variable returns the first word of a variable.
func variable(t *testing.T, n *mem.NIC, name string) int64 {
	t.Helper()
	v, err := n.Machine.Variable(1, name)
	if err != nil {
		t.Fatal(err)
	}
	return v[0]
}

// A program that tests a lock wants to see the effects of others before or after they set it. So
// its own transfers must have ended before.
func TestALockIsReadBehindTheTransfersBeforeIt(t *testing.T) { // PANIC-39
	for _, looks := range []string{
		"IF LOCK(3) THEN done = 1",
		"done = LOCK(3)",
		"done = 1 * (0 + LOCK(3))",
		"WHILE LOCK(3) AND done < 1 DO done = done + 1",
		"IF a = 7 THEN IF LOCK(3) THEN done = 1",
	} {
		f, n := late(t, "DELIVER a OFFSET 0 INTO 1 LEN 8; b = 1; "+looks)
		n.Segment(1, 8)
		if o := n.Machine.Dispatch(&vm.Message{Program: 1, Trigger: 1}); o != vm.Waiting || variable(t, n, "b") != 1 {
			t.Fatalf("%s: %v, and b is %d", looks, o, variable(t, n, "b"))
		}
		n.SetLock(3) // while the transfer is in flight
		f.Run(1)
		if got := variable(t, n, "done"); got != 1 {
			t.Errorf("%s: done is %d; the lock was read before the transfer had ended", looks, got)
		}
	}
}

// A process that sees a flag, a lock or a message also finds what the program delivered before it.
func TestOthersAreToldBehindTheTransfersBeforeThat(t *testing.T) { // PANIC-39
	for _, tells := range []string{"SET FLAG 3", "CLEAR LOCK 3", "SEND b LEN 8 AS 2 TO 9", "IF a = 7 THEN SET FLAG 3", "WHILE done < 1 DO BEGIN done = 1; SET FLAG 3 END"} {
		f, n := late(t, "DELIVER a OFFSET 0 INTO 1 LEN 8; b = 1; "+tells)
		segment := n.Segment(1, 8)
		n.SetLock(3)
		told := func() bool {
			return !n.Lock(3) || slices.Contains(n.Flags(), 3) || len(n.Sent) > 0
		}
		if o := n.Machine.Dispatch(&vm.Message{Program: 1, Trigger: 1}); o != vm.Waiting || told() {
			t.Errorf("%s: %v; others are told: %v", tells, o, told())
		}
		if f.Run(1); !told() || binary.LittleEndian.Uint64(segment) != 7 {
			t.Errorf("%s: behind the transfer others are told: %v, and the segment has %v", tells, told(), segment)
		}
	}
}
