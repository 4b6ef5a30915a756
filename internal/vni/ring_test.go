package vni

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// A ring longer than the part that stays in the caches is used in short rounds while its reader
// keeps up, and completely when it does not. Unread messages are never overwritten, and are read
// in their order.
func TestAReaderHasOfARingWhatItsWriterPutThere(t *testing.T) {
	for seed := range uint64(4) {
		_, p, nic := newSegment(t, small)
		i, _ := p.TakeReceive()
		mem := AlignedBytes(4 * hotRing)
		var r RingReader
		r.Open(p, i, mem)
		w := nic.Ring(i, mem)
		rng := rand.New(rand.NewPCG(seed, 1))
		written, read, again, full := 0, 0, 0, 0
		for read < 5000 {
			at := w.Offset()
			for k := rng.IntN(200); k > 0; k-- {
				n := rng.IntN(3000)
				need := RingNeeds(n, false, false)
				if !w.Fits(need) {
					if err := w.Look(); err != nil {
						t.Fatal(err)
					}
					if !w.Fits(need) {
						full++
						break
					}
				}
				b := PutRingMessage(w.Place(need), uint64(written), 0, n)
				for j := range b {
					b[j] = byte(written)
				}
				w.Advance(need)
				if !w.Sound() {
					t.Fatalf("seed %d: message %d is written over what was not read", seed, written)
				}
				written++
			}
			if w.Offset() < at {
				again++
			}
			w.PublishTo(w.Position())
			for k := rng.IntN(200); k > 0; k-- {
				data, ok := r.Next()
				if !ok {
					if !w.AllRead() {
						t.Fatalf("seed %d: all %d messages are read, and the writer does not hear of it", seed, read)
					}
					break
				}
				if r.Tag != uint64(read) || bytes.Count(data, []byte{byte(read)}) != len(data) {
					t.Fatalf("seed %d: message %d is read as %d, of %d bytes", seed, read, r.Tag, len(data))
				}
				read++
			}
		}
		if again == 0 || full == 0 {
			t.Errorf("seed %d: the ring began anew %d times and was full %d times", seed, again, full)
		}
	}
}

// A ring of a context that had another ring before starts with no message of its first record
// read, and without stalls to answer.
func TestARingBeginsWithoutWhatTheOneBeforeHasLeft(t *testing.T) {
	_, p, nic := newSegment(t, small)
	i, _ := p.TakeReceive()
	mem := AlignedBytes(RingSize(64))
	var r RingReader
	r.Open(p, i, mem)
	w := nic.Ring(i, mem)
	need := RingRunNeeds(2*3+3, false)
	b := PutRingRun(w.Place(need), 7, 3, 2*3+3)
	copy(b, []byte{1, 0, 1, 0, 1, 0, 'a', 'b', 'c'})
	w.Advance(need)
	w.PublishTo(w.Position())
	w.Stall()
	for range 2 {
		if _, ok := r.Next(); !ok {
			t.Fatal("there is no message")
		}
	}
	r.Finish()
	if n := w.Partial(); n != 2 {
		t.Fatalf("%d of 3 messages were read", n)
	}
	var next RingReader
	next.Open(p, i, mem)
	w = nic.Ring(i, mem)
	if w.Partial() != 0 || next.Stalled() || next.Ready() || w.Look() != nil || !w.AllRead() {
		t.Errorf("%d messages of the first record were read, stalled: %v, ready: %v, %v, all read: %v", w.Partial(), next.Stalled(), next.Ready(), w.Look(), w.AllRead())
	}
}

// A process cannot have read more than it was shown, although the ring may hold more.
func TestMoreOfARingThanWasShownCannotBeRead(t *testing.T) {
	_, p, nic := newSegment(t, small)
	i, _ := p.TakeReceive()
	w := nic.Ring(i, AlignedBytes(RingSize(64)))
	for range 2 {
		PutRingMessage(w.Place(RingNeeds(0, false, false)), 0, 0, 0)
		w.Advance(RingNeeds(0, false, false))
	}
	w.PublishTo(w.Position() - uint64(RingNeeds(0, false, false)))
	p.SetConsumed(i, w.Position(), 0)
	if err := w.Look(); !errors.Is(err, ErrImpossible) {
		t.Errorf("all was read, of which half was shown: %v", err)
	}
}
