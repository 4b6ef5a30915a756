package rel

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weftnet/weft/internal/wire"
)

func TestAMessageIsCutIntoEvenPiecesAndNoMoreThanThereHaveToBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(32, 9000).Draw(t, "most")
		n := rapid.IntRange(1, 20*most).Draw(t, "n")
		piece := evenPiece(n, most)
		if piece < 1 || piece > most {
			t.Fatalf("pieces of %d bytes, of which there is room for %d", piece, most)
		}
		pieces := (n + piece - 1) / piece
		if least := (n + most - 1) / most; pieces != least {
			t.Fatalf("%d pieces of %d bytes; expected %d", pieces, piece, least)
		}
		lacks := pieces*piece - n
		if pieces > 1 && piece < most && (lacks > 0 && lacks < wire.RecordLen || lacks > 2*pieces+wire.RecordLen) {
			t.Fatalf("the last of %d pieces of %d bytes lacks %d", pieces, piece, lacks)
		}
	})
}

func TestAllFramesOfMessagesInEvenPiecesHaveOneLength(t *testing.T) {
	for _, loss := range []float64{0, 0.3} {
		for _, n := range []int{1500, 4000, 4096, 4097, 4098, 8200, 16384} {
			w, a, b, e := joined(t, nil)
			w.weather.loss = loss
			sent := map[int]int{} // by length
			w.filter = func(from, _ *node, frame []byte) bool {
				if o, _, err := wire.ParseOuter(frame); from == a && err == nil && o.Kind == wire.KindData {
					sent[len(frame)]++
				}
				return true
			}
			const messages = 5
			for i := range messages {
				f := chunks(wire.FragmentID(i+1), n)
				f.Piece = e.EvenPieceLen(wire.TypeChunk, n)
				for f.Next < f.Length {
					if e.Post(w.now, f, 100) == 0 {
						t.Fatalf("%d bytes: not posted", n)
					}
				}
			}
			a.wake()
			w.runUntil(10*time.Second, "all are acknowledged", func() bool { return len(a.released) == messages })
			if len(sent) != 1 {
				t.Errorf("messages of %d bytes left in frames of these lengths: %v", n, sent)
			}
			if pieces := (n + e.PieceLen(wire.TypeChunk) - 1) / e.PieceLen(wire.TypeChunk); len(b.order) != messages*pieces {
				t.Errorf("of messages of %d bytes %d pieces came; expected %d", n, len(b.order), messages*pieces)
			}
			w.check()
		}
	}
}
