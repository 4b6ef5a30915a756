package ebpf_test

import (
	"testing"

	"github.com/weftnet/weft/pdl/vm"
)

// In the driver, too, a copy costs one instruction for each 64 bytes. The test compares the
// profiles of the two engines.
func TestACopyCostsInTheDriverAsMuchAsInTheMachine(t *testing.T) { // PANIC-5
	b := newBench(t)
	for _, body := range []string{
		"SEND PACKET[0] LEN 960 AS 1 TO 2 AT SOURCE",
		"SEND v[0] LEN 960 AS 1 TO 2 AT SOURCE",
		"DELIVER v[0] OFFSET 0 INTO 1 LEN 64",
		"DELIVER PACKET[0] OFFSET 0 INTO 1 LEN 64",
		"GET v[0] OFFSET 0 FROM 1 LEN 64",
		"WHILE a < 40 DO BEGIN\na = a + 1; GET v[a] OFFSET 0 FROM 1 LEN 64 END; SEND v[0] LEN 64 AS 1 TO 2 AT SOURCE",
	} {
		m := compiled(t, handler(body))
		v := newMachine(t, m)
		v.machine.Start(programID)
		v.effects = nil
		k := b.load(m)
		v.sync(k)
		packet := make([]byte, 960)
		want := v.machine.Dispatch(&vm.Message{Program: programID, Trigger: 1, Source: peerNIC, Payload: packet})
		if want != vm.Awaiting {
			t.Fatalf("%s: %v", body, want)
		}
		if d := v.differs(k, want, k.send(1, packet)); d != "" {
			t.Errorf("%s: %s", body, d)
		}
		k.close()
	}
}
