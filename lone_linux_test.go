package weft_test

import (
	"bytes"
	"testing"

	"github.com/weftnet/weft"
)

// If a link shows its frames, as shared memory and AF_XDP do, and nothing precedes a message, no
// receive is posted for the message: it goes from the ring to its receiver.
func TestLoneMessagesAreMetAndAllocateNothing(t *testing.T) { // USNIC-28, USNIC-38, P12
	links(t, func(t *testing.T, n *network) {
		if n.onSwitch() || n.Link == (weft.Link{}) || n.Faults != nil {
			t.Skip("the link shows no frames")
		}
		ctx, a, b := pair(t, n)
		head, body, buf := []byte("a head "), []byte("and a body"), make([]byte, 100)
		exchange := func() {
			if err := a.Send(ctx, b.Name(), 5, body); err != nil {
				t.Fatal(err)
			}
			if m, err := b.Recv(ctx, a.Name(), 5, buf); err != nil || m.Len != len(body) || m.From != a.Name() || m.Addr != a.Address() || m.Tag != 5 {
				t.Fatalf("%+v, %v", m, err)
			}
			// A message in several parts.
			if err := b.Send(ctx, a.Name(), 6, head, body); err != nil {
				t.Fatal(err)
			}
			if m, err := a.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf); err != nil || !bytes.Equal(buf[:m.Len], []byte("a head and a body")) || m.Full != m.Len {
				t.Fatalf("%+v, %q, %v", m, buf[:m.Len], err)
			}
		}
		for range 100 { // afterwards the path is open, names are known, and credit has been given
			exchange()
		}
		before := a.NIC().Counters()["nic_met"] + b.NIC().Counters()["nic_met"]
		got := steadyAllocs(exchange)
		// Short runs may be for the race detector. With it, the system calls of AF_XDP allocate.
		if got != 0 && (n.bed == nil || !testing.Short()) {
			t.Errorf("%v allocations for an exchange", got)
		}
		want := uint64(1000)
		if testing.Short() {
			want = 100
		}
		met := func() uint64 { return a.NIC().Counters()["nic_met"] + b.NIC().Counters()["nic_met"] - before }
		for met() < want { // on a slow machine other goroutines poll in between
			if ctx.Err() != nil { // the straight way does not check the context
				t.Fatalf("%d messages were met in the time that there is; expected %d", met(), want)
			}
			exchange()
		}
	})
}
