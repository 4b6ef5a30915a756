package rel

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/wire"
)

// countPieces counts how often each data frame of a fragment is sent, by its piece, and loses
// some the first time.
func countPieces(w *world, lose map[int]bool) map[int]int {
	sent := map[int]int{}
	w.filter = func(from, to *node, frame []byte) bool {
		o, body, err := wire.ParseOuter(frame)
		if err != nil || o.Kind != wire.KindData {
			return true
		}
		_, records, err := wire.ParseInner(body[:len(body)-wire.TagLen])
		if err != nil || wire.Record(records).Type() != wire.TypeChunk {
			return true
		}
		_, offset := wire.Record(records).Chunk()
		piece := int(offset) / (1472 - wire.Overhead - wire.ChunkLen)
		sent[piece]++
		return sent[piece] > 1 || !lose[piece]
	}
	return sent
}

// Frames of a run are lost, acknowledged and retransmitted as if each had been sent separately,
// wherever it breaks.
func TestOfARunOnlyWhatIsLostIsSentAgain(t *testing.T) {
	for _, lose := range []map[int]bool{{}, {0: true}, {39: true}, {7: true, 8: true, 20: true}, {0: true, 1: true, 2: true, 38: true, 39: true}} {
		w, a, b, e := joined(t, nil)
		w.run(time.Millisecond) // the path's length and a round trip are known
		sent := countPieces(w, lose)
		f := chunks(1, 40*e.PieceLen(wire.TypeChunk))
		if n := e.Post(w.now, f, 100); n != 40 || e.channels[wire.Data].queue.head.frames != 40 {
			t.Fatalf("%d segments were posted; want a run of 40", n)
		}
		got := 0
		b.deliver = func(_ *Endpoint, r wire.Record) {
			_, offset := r.Chunk()
			for i, x := range r.Payload() {
				if at := int(offset) + i; x != byte(at^at>>8^1) {
					t.Fatalf("byte %d is %d", at, x)
				}
			}
			got += len(r.Payload())
		}
		a.wake()
		w.run(time.Second)
		if got != int(f.Length) || len(a.released) != 1 || f.Err != nil {
			t.Errorf("of %d bytes %d have come; released %d times: %v", f.Length, got, len(a.released), f.Err)
		}
		for piece := range 40 {
			if want := 1; sent[piece] != want && !lose[piece] || sent[piece] < 2 && lose[piece] {
				t.Errorf("lost %v: piece %d was sent %d times", lose, piece, sent[piece])
			}
		}
		w.quiet()
	}
}

// Packets for which the window, or the hotel, has no room stay queued after the part of the run
// that has left.
func TestARunLeavesAsFarAsThereIsRoom(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"rooms":  func(c *Config) { c.Rooms = 64 },
		"credit": func(c *Config) { c.ReceiveCapacity = 30_000 },
	} {
		w, a, b, e := joined(t, change)
		w.run(time.Millisecond)
		f := chunks(1, 200_000)
		a.onRoom = func(e *Endpoint) {
			for e.Post(w.now, f, 44) > 0 {
			}
			a.wake()
		}
		a.onRoom(e)
		got, most := 0, 0
		b.deliver = func(_ *Endpoint, r wire.Record) {
			got += len(r.Payload())
			most = max(most, a.m.InFlight())
		}
		w.run(5 * time.Second)
		if got != 200_000 || most > 64 {
			t.Errorf("%s: %d bytes have come, with up to %d frames in flight", name, got, most)
		}
		w.quiet()
	}
}

// A run that is withdrawn while it is in flight keeps the numbers of its frames, as single
// frames do.
func TestAWithdrawnRunLeavesNoGap(t *testing.T) {
	w, a, b, e := joined(t, nil)
	w.run(time.Millisecond)
	countPieces(w, map[int]bool{3: true, 4: true, 30: true})
	f := chunks(1, 40*e.PieceLen(wire.TypeChunk))
	e.Post(w.now, f, 40)
	a.wake()
	w.run(10 * time.Microsecond)
	e.Withdraw(w.now, f)
	if !a.frag(e, wire.Data, "next") {
		t.Fatal("nothing may be sent")
	}
	w.run(time.Second)
	if b.got["next"] != 1 || len(a.released) != 1 {
		t.Errorf("got %v, released %d times", b.got, len(a.released))
	}
	w.quiet()
}
