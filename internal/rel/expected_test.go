package rel

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/wire"
)

// Whichever part of a frame is damaged, or another peer's, the frame does not count, though its
// payload may have been written by then.
func TestADamagedFrameThatIsExpectedDoesNotCount(t *testing.T) {
	for name, damage := range map[string]func(frame []byte){
		"payload":  func(f []byte) { f[100] ^= 1 },
		"ack":      func(f []byte) { f[wire.OuterLen+8] ^= 1 },
		"checksum": func(f []byte) { f[len(f)-wire.TagLen] ^= 1 },
		"cookie":   func(f []byte) { f[len(f)-1] ^= 1 },
		"offset":   func(f []byte) { f[wire.OuterLen+wire.InnerLen+9] ^= 1 },
	} {
		w, a, b, e := joined(t, nil)
		w.run(time.Millisecond)
		b.places = func(uint64) bool { return true }
		b.deliver = func(_ *Endpoint, r wire.Record) {
			_, offset := r.Chunk()
			for i, x := range r.Payload() {
				if at := int(offset) + i; x != byte(at^at>>8^1) {
					t.Fatalf("%s: byte %d is %d", name, at, x)
				}
			}
		}
		n := 0
		w.filter = func(from, to *node, frame []byte) bool {
			if from == a && len(frame) > 1000 {
				if n++; n == 5 {
					damage(frame)
				}
			}
			return true
		}
		f := chunks(1, 20*e.PieceLen(wire.TypeChunk))
		e.Post(w.now, f, 20)
		a.wake()
		w.run(time.Second)
		st := b.m.Stats()
		if st.CRCErrors != 1 || len(a.released) != 1 || f.Err != nil {
			t.Errorf("%s: %d damaged frames were counted; released %d times: %v", name, st.CRCErrors, len(a.released), f.Err)
		}
		// The first piece shows which ones will come. The first one after the gap takes the long
		// path, and so does the one that fills it.
		if b.placed != 17*e.PieceLen(wire.TypeChunk) || st.ChunkReceives != 20 || st.Ahead != 15 {
			t.Errorf("%s: of %d pieces %d bytes were placed", name, st.ChunkReceives, b.placed)
		}
		w.quiet()
	}
}
