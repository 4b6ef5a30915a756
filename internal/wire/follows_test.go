package wire_test

import (
	"testing"

	"github.com/weftnet/weft/internal/wire"
)

// nth returns the body of the nth frame of a run of chunks of 100 bytes.
func nth(n int) []byte {
	b := make([]byte, wire.InnerLen+wire.ChunkLen+100)
	h := wire.Inner{Space: wire.Data, Flags: wire.AckCommand | wire.AckData, Seq: wire.Seq(1<<32 - 3).Add(n), Ack: [wire.Spaces]wire.Seq{4, 5}}
	h.Put(b)
	wire.PutChunk(b[wire.InnerLen:], 0, 9, 1<<32-150+uint64(100*n), 100)
	return b
}

func TestTheNextFrameOfARunIsKnownToFollow(t *testing.T) {
	h, _, err := wire.ParseInner(nth(0))
	if err != nil {
		t.Fatal(err)
	}
	next := h.After(9, 1<<32-150+100)
	for n := 1; n < 5; n++ {
		if next.Begins(nth(n)) != 100 || next.Begins(nth(n-1)) != 0 || next.Begins(nth(n+1)) != 0 {
			t.Errorf("of frames %d to %d the middle one is not known as the next", n-1, n+1)
		}
		if body := nth(n); next.Begins(body[:len(body)-1]) != 0 || next.Begins(append(body, 0)) != 0 {
			t.Errorf("frame %d is known as the next though it is longer than its record, or shorter", n)
		}
		next.Next(100)
	}
}
