package weft_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// If TrySend returns true, the message is in flight and the caller may use its memory, even for a
// message of several frames. If TrySend returns false, it has sent nothing.
func TestTrySendTakesAMessageAtOnceOrNotAtAll(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{Link: weft.UDP("127.0.0.1:0")}))
	toB := a.Peer(b.Name())
	if err := toB.SendDelivered(ctx, 1); err != nil { // opens the pair
		t.Fatal(err)
	}
	if _, err := b.Recv(ctx, weft.AnyProcess, 1, nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 8, 4 << 10, 16 << 10} {
		want := bytes.Repeat([]byte{byte(n>>8) + 1}, n)
		data := bytes.Clone(want)
		// The polling helper of the NIC may have a command to read just then.
		for !toB.TrySend(2, data[:n/3], data[n/3:]) {
			time.Sleep(time.Millisecond)
			if ctx.Err() != nil {
				t.Fatalf("%d bytes are never taken", n)
			}
		}
		clear(data)
		got := make([]byte, n)
		if m, err := b.Recv(ctx, weft.AnyProcess, 2, got); err != nil || m.Len != n || !bytes.Equal(got, want) {
			t.Errorf("%d bytes came as %d, or as others: %v", n, m.Len, err)
		}
	}
	o, err := b.Port(7)
	if err != nil {
		t.Fatal(err)
	}
	o.Close()
	for what, taken := range map[string]bool{
		"to a name that no process has": a.Peer(weft.Name{App: "nobody"}).TrySend(2, nil),
		"to any process":                a.Peer(weft.AnyProcess).TrySend(2, nil),
		"with a tag that is none":       toB.TrySend(weft.AnyTag, nil),
		"longer than the NIC copies":    toB.TrySend(2, make([]byte, 16<<10+1)),
		"of a port that is closed":      o.Peer(a.Name()).TrySend(2, nil),
	} {
		if taken {
			t.Errorf("a message %s has been taken", what)
		}
	}
}
