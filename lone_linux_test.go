package weft_test

import (
	"bytes"
	"testing"

	"github.com/weftnet/weft"
)

// Messages over shared memory that nothing is in the way of are never posted as receives: they go from the ring to whom they are for.
func TestLoneMessagesOverSharedMemoryAreMetAndAllocateNothing(t *testing.T) { // USNIC-28, USNIC-38, P12
	ctx, a, b := pair(t, on(weft.Config{Listen: "shm:"}))
	head, body, buf := []byte("a head "), []byte("and a body"), make([]byte, 100)
	exchange := func() {
		if err := a.Send(ctx, b.Name(), 5, body); err != nil {
			t.Fatal(err)
		}
		if m, err := b.Recv(ctx, a.Name(), 5, buf); err != nil || m.Len != len(body) || m.From != a.Name() || m.Addr != a.Address() || m.Tag != 5 {
			t.Fatalf("%+v, %v", m, err)
		}
		if err := b.Send(ctx, a.Name(), 6, head, body); err != nil { // of several parts
			t.Fatal(err)
		}
		if m, err := a.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf); err != nil || !bytes.Equal(buf[:m.Len], []byte("a head and a body")) || m.Full != m.Len {
			t.Fatalf("%+v, %q, %v", m, buf[:m.Len], err)
		}
	}
	for range 100 { // the way is open, names are known, credit has been given
		exchange()
	}
	before := a.NIC().Counters()["nic_met"] + b.NIC().Counters()["nic_met"]
	if n := testing.AllocsPerRun(1000, exchange); n != 0 {
		t.Errorf("%v allocations for an exchange", n)
	}
	met := func() uint64 { return a.NIC().Counters()["nic_met"] + b.NIC().Counters()["nic_met"] - before }
	for met() < 1000 { // on a slow machine others poll in between; ctx ends it
		exchange()
	}
}
