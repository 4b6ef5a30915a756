package wire_test

import (
	"testing"

	"github.com/weftnet/weft/internal/wire"
)

// nth is the nth frame of a run of chunks of 100 bytes.
func nth(n int) []byte {
	b := make([]byte, wire.Overhead+wire.ChunkLen+100)
	wire.Outer{Kind: wire.KindData, Flags: wire.FlagTagged, Index: 7, Counter: 1<<32 - 2 + uint64(n)}.Put(b)
	h := wire.Inner{Space: wire.Data, Flags: wire.AckCommand | wire.AckData, Seq: wire.Seq(1<<32 - 3).Add(n), Ack: [wire.Spaces]wire.Seq{4, 5}}
	h.Put(b[wire.OuterLen:])
	wire.PutChunk(b[wire.OuterLen+wire.InnerLen:], 0, 9, 1<<32-150+uint64(100*n), 100)
	wire.Seal(b, len(b)-wire.TagLen, 3)
	return b
}

func TestTheNextFrameOfARunIsKnownToFollow(t *testing.T) {
	first := nth(0)
	for n := range 5 {
		frame := nth(n)
		if !wire.Follows(frame, first, n, 100) {
			t.Errorf("frame %d does not follow", n)
		}
		for bit := range 8 * (wire.OuterLen + wire.InnerLen + wire.ChunkLen) {
			frame[bit/8] ^= 1 << (bit % 8)
			if wire.Follows(frame, first, n, 100) {
				t.Errorf("frame %d follows with bit %d flipped", n, bit)
			}
			frame[bit/8] ^= 1 << (bit % 8)
		}
	}
}
