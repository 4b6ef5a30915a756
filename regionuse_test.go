//go:build unix

package weft_test

import (
	"bytes"
	"testing"

	"github.com/weftnet/weft"
)

// An operation that has been started uses its region from then on, whether the NIC has looked at it or not.
func TestARegionStaysWhileAnOperationThatWasStartedUsesIt(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{}))
	if _, err := a.WaitName(ctx, b.Name()); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<20)
	for round := range uint64(20) {
		r, err := a.Register(pages(t, 256), weft.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		mem := r.Bytes()[:1<<20] // asks for permission, which the receiver gives below
		copy(mem, pattern(round, len(mem)))
		op, err := a.StartSend(b.Name(), 1, mem)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err == nil {
			t.Fatalf("round %d: the region is closed, and a send that was started has not ended", round)
		}
		if m, err := b.Recv(ctx, a.Name(), 1, got); err != nil || m.Len != len(mem) || !bytes.Equal(got, mem) {
			t.Fatalf("round %d: %v, %v; the bytes are right: %v", round, m, err, bytes.Equal(got, mem))
		}
		if _, err := op.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
