package vm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/pdl/vm/mem"
)

// groupSource answers with an element that it has. Its trigger 1 sends a question to all.
const groupSource = `PROGRAM group: VAR asked, v[64]; TRIGGERS 1, 2, 3;
BEGIN v[0] = 7 END;
MESSAGE 1: BEGIN SEND v[0] LEN PACKET[0] AS 2 TO group AT * END;
MESSAGE 2: BEGIN DISPLAY PACKET[0] END;
MESSAGE 3: BEGIN SEND PACKET[1] LEN 8 AS 2 TO "group" AT * END;
END;`

// groupOf returns a number of NICs with the program, each under another number.
func groupOf(t *testing.T, nics, budget int) (*mem.Fabric, []*mem.NIC) {
	t.Helper()
	m, err := pdl.Compile("group.pdl", []byte(groupSource))
	if err != nil {
		t.Fatal(err)
	}
	f := mem.NewFabric()
	var all []*mem.NIC
	for i := range nics {
		n, err := f.Add(uint64(i+1), "", vm.Config{CodeWords: 1000, DataWords: 4000, Programs: 3, Budget: budget})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Machine.Load(vm.ID(10+i), m); err != nil {
			t.Fatal(err)
		}
		n.Machine.Start(vm.ID(10 + i))
		all = append(all, n)
	}
	return f, all
}

func TestOneSendReachesTheProgramOfEachOtherNIC(t *testing.T) { // PANIC-7, PANIC-31
	_, all := groupOf(t, 5, 10_000)
	first := all[0]
	for _, trigger := range []uint32{1, 3} {
		first.Sent = nil
		first.Machine.Dispatch(&vm.Message{Program: 10, Trigger: trigger, Payload: []byte{8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0}})
		var to []uint64
		for _, s := range first.Sent {
			if want := byte(7 + 2*(trigger/3)); s.To.Trigger != 2 || s.To.Program != vm.ID(9+s.To.NIC) || s.Payload[0] != want || len(s.Payload) != 8 {
				t.Errorf("trigger %d: program %d of NIC %d is sent %v", trigger, s.To.Program, s.To.NIC, s.Payload)
			}
			to = append(to, s.To.NIC)
		}
		if !slices.Equal(to, []uint64{2, 3, 4, 5}) {
			t.Errorf("trigger %d: the NICs %v are sent the message", trigger, to)
		}
	}
}

func TestASendToAllCostsAsMuchAsOneToEach(t *testing.T) { // PANIC-5
	cost := func(nics int) int {
		_, all := groupOf(t, nics, 10_000)
		// The message asks for 512 bytes.
		all[0].Machine.Dispatch(&vm.Message{Program: 10, Trigger: 1, Payload: []byte{0, 2, 0, 0, 0, 0, 0, 0}})
		return all[0].Machine.Last()
	}
	if more := cost(5) - cost(2); more != 3*(1+512/64) {
		t.Errorf("three members more cost %d instructions, expected %d", more, 3*(1+512/64))
	}
	_, all := groupOf(t, 5, 30)
	if o := all[0].Machine.Dispatch(&vm.Message{Program: 10, Trigger: 1, Payload: []byte{0, 2, 0, 0, 0, 0, 0, 0}}); o != vm.Aborted || len(all[0].Sent) >= 4 {
		t.Errorf("with a budget of 30, %d messages were sent: %v", len(all[0].Sent), o)
	}
	if info, _ := all[0].Machine.Info(10); info.LastAbort != vm.OutOfBudget {
		t.Errorf("it was aborted for %v", info.LastAbort)
	}
}

func TestASendToAllNeedsTheNameOfAProgram(t *testing.T) { // PANIC-31
	_, err := pdl.Compile("p.pdl", []byte("PROGRAM p: VAR v; TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN SEND v LEN 8 AS 1 TO 415 AT * END; END;"))
	if err == nil || !strings.Contains(err.Error(), "expected a name") {
		t.Errorf("%v", err)
	}
	text, err := pdl.Format("group.pdl", []byte(groupSource))
	if err != nil || !strings.Contains(string(text), "TO group AT *;") {
		t.Errorf("%v\n%s", err, text)
	}
}
