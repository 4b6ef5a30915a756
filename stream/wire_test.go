package stream

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/weftnet/weft"
)

// Whatever a peer sends, parse must not panic, and its result must have the fields of its kind.
func FuzzParse(f *testing.F) {
	var h [headBytes]byte
	f.Add(uint64(tagOf(kindOpen, 0)), append(head(&h, 7, 1<<18), "http"...))
	f.Add(uint64(tagOf(kindData, 3)), append(head(&h, 7, 0), 1, 2, 3))
	f.Add(uint64(tagOf(kindRefuse, 3)), []byte{0, 0, 0, 0, 1})
	f.Add(uint64(tagOf(kindReset, 3)), []byte{0, 0, 0, 0})
	f.Add(uint64(tagOf(kindPing, 3)), state(new([stateBytes]byte), 7, 1<<20, 9, endsOwn))
	f.Fuzz(func(t *testing.T, tag uint64, b []byte) {
		m, ok := parse(weft.Tag(tag), b)
		if !ok {
			return
		}
		if tagOf(m.kind, m.number) != weft.Tag(tag) {
			t.Errorf("%+v was read from tag %#x", m, tag)
		}
		var again []byte
		switch again = head(&h, m.sender, m.offset)[:numberBytes]; m.kind {
		case kindReset:
		case kindRefuse:
			again = append(again, byte(m.why))
		case kindWindow, kindPing, kindPong:
			again = state(new([stateBytes]byte), m.sender, m.offset, m.sent, m.end)
		default:
			again = append(head(&h, m.sender, m.offset), m.rest...)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x was read as %+v, which is %x", b, m, again)
		}
	})
}

// A ring must behave as the simplest queue of bytes does.
func TestARingIsAQueueOfBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r ring
	var want []byte
	next := byte(0)
	for range 20_000 {
		b := make([]byte, rng.IntN(1+rng.IntN(5000)))
		switch rng.IntN(3) {
		case 0:
			for i := range b {
				b[i] = next
				next++
			}
			r.write(b)
			want = append(want, b...)
		case 1:
			n := r.read(b)
			if n != min(len(b), len(want)) || !bytes.Equal(b[:n], want[:n]) {
				t.Fatalf("%d bytes were read of %d, or others", n, len(want))
			}
			want = want[n:]
		default:
			b = r.first()
			if !bytes.HasPrefix(want, b) || len(want) > 0 && len(b) == 0 {
				t.Fatalf("%d bytes lie first of %d, or others", len(b), len(want))
			}
			r.skip(len(b))
			want = want[len(b):]
		}
		if r.len() != len(want) || len(want) == 0 && len(r.mem) > keptRing {
			t.Fatalf("the ring has %d bytes in memory of %d; want %d", r.len(), len(r.mem), len(want))
		}
	}
}
