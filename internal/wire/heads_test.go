package wire_test

import (
	"bytes"
	"testing"

	"github.com/weftnet/weft/internal/wire"
)

// Each counter wraps in the frames below.
func TestTheHeadersOfARunAreThoseOfItsFramesByThemselves(t *testing.T) {
	inner := wire.Inner{Space: wire.Data, Flags: wire.AckCommand | wire.AckData, Seq: 1<<32 - 3, Ack: [wire.Spaces]wire.Seq{4, 5}}
	chunk, eager := make([]byte, wire.ChunkLen), make([]byte, wire.EagerLen)
	wire.PutChunk(chunk, 0, 9, 0, 0)
	wire.PutEager(eager, 9, 0, 1<<20, &wire.Envelope{Number: 6}, 0)
	for _, record := range [][]byte{chunk, eager} {
		const n, begin = 100, 1<<32 - 150
		var h wire.Heads
		h.Set(&inner, record, begin, n)
		in := inner
		for i := range uint64(5) {
			want := append(make([]byte, wire.OuterLen+wire.InnerLen), record...)
			in.Put(want[wire.OuterLen:])
			wire.PatchPiece(want[wire.OuterLen+wire.InnerLen:], begin+i*n, n)
			got := make([]byte, len(want)+n)
			if at := h.Put(got); at != len(want) || !bytes.Equal(got[:at], want) {
				t.Errorf("%v, frame %d: %x, want %x", wire.Record(record).Type(), i, got[:at], want)
			}
			h.Next(n)
			in.Seq = in.Seq.Add(1)
		}
	}
}
