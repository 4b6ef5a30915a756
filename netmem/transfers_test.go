package netmem

import (
	"bytes"
	"testing"

	"github.com/weftnet/weft/internal/hsn"
)

// Requests continue while the disk writes a frame or reads it back. Whatever they do to its
// pages, no page is lost or reappears, and each buffer and each slot is in one place.
func TestRequestsDuringATransferLoseNothing(t *testing.T) {
	a, b, other := pageKey{page: 1}, pageKey{page: 2}, pageKey{page: 3}
	var pinned *frame
	for what, x := range map[string]struct {
		during      func(s *shelf) status
		a, b, other []byte
		here        bool // the frame stays in memory
	}{
		"nothing happens":       {func(*shelf) status { return statusOK }, pattern(hsn.HalfPage, 1), pattern(hsn.HalfPage, 2), nil, false},
		"a page is discarded":   {func(s *shelf) status { s.discard(a, 9); return statusOK }, nil, pattern(hsn.HalfPage, 2), nil, false},
		"both are discarded":    {func(s *shelf) status { s.discard(a, 9); s.discard(b, 9); return statusOK }, nil, nil, nil, false},
		"a page is overwritten": {func(s *shelf) status { return s.within(0, a, 2, pattern(hsn.HalfPage, 7)) }, pattern(hsn.HalfPage, 7), pattern(hsn.HalfPage, 2), nil, false},
		"a page comes":          {func(s *shelf) status { return s.within(0, other, 1, pattern(hsn.HalfPage, 3)) }, pattern(hsn.HalfPage, 1), pattern(hsn.HalfPage, 2), pattern(hsn.HalfPage, 3), false},
		"one goes and one comes": {func(s *shelf) status {
			s.discard(a, 9)
			return s.within(0, other, 1, pattern(hsn.HalfPage, 3))
		}, nil, pattern(hsn.HalfPage, 2), pattern(hsn.HalfPage, 3), false},
		"a page is being sent": {func(s *shelf) status {
			if p := s.at(a); p.data != nil {
				pinned = s.pin(p)
			}
			return statusOK
		}, pattern(hsn.HalfPage, 1), pattern(hsn.HalfPage, 2), nil, true},
	} {
		for _, reads := range []bool{false, true} {
			const slots = 6
			s := newShelf(t, 3)
			s.spillTo(t, slots)
			total := s.pool.Len()
			s.put(a, 1, pattern(hsn.HalfPage, 1))
			s.put(b, 1, pattern(hsn.HalfPage, 2))
			f := s.at(a).frame
			f.used = false
			s.spillFrame(f)
			if reads {
				s.move()
				if s.at(a).data != nil || s.load(f) == nil {
					t.Fatalf("%s: the frame is not in the file", what)
				}
			}
			if !f.moving || len(s.transfers) != 1 {
				t.Fatalf("%s: no transfer", what)
			}
			pinned = nil
			if st := x.during(s); st != statusOK && st != statusBusy {
				t.Errorf("%s, reads %v: status %d", what, reads, st)
			}
			s.move()
			if x.here && !reads && (s.at(a).data == nil || f.slot != 0) {
				t.Errorf("%s: a page that is being sent has left memory", what)
			}
			if pinned != nil {
				s.unpin(pinned)
			}
			for key, want := range map[pageKey][]byte{a: x.a, b: x.b, other: x.other} {
				if p := s.get(key); (p != nil) != (want != nil) || p != nil && !bytes.Equal(p.data, want) {
					t.Errorf("%s, reads %v: page %d is not as it was put", what, reads, key.page)
				}
			}
			used := map[int64]bool{}
			for p := range s.all() {
				if p.frame.slot != 0 {
					used[p.frame.slot] = true
				}
			}
			if s.pool.Len()+s.frames != total || len(s.spill.free)+len(used) != slots || s.evicting != 0 || s.loading != 0 || s.bad != 0 {
				t.Errorf("%s, reads %v: %d of %d buffers, %d free and %d used slots of %d, %d and %d transfers, %d bad pages", what, reads,
					s.pool.Len()+s.frames, total, len(s.spill.free), len(used), slots, s.evicting, s.loading, s.bad)
			}
			if err := s.counted(); err != nil {
				t.Errorf("%s, reads %v: %v", what, reads, err)
			}
		}
	}
}

// spillFrame begins to write one frame to the file.
func (s *shelf) spillFrame(f *frame) {
	s.evicting++
	s.store.move(&transfer{f: f, b: f.b, slot: s.spill.take()})
}

// A full store writes a new version of a page into the place of the page if the version fits
// there. It refuses a longer version.
func TestAPageKeepsToItsPlace(t *testing.T) {
	s := newShelf(t, 1)
	key, beside := pageKey{page: 1}, pageKey{page: 2}
	half := pattern(hsn.HalfPage, 1)
	s.put(key, 1, half)
	s.put(beside, 1, pattern(hsn.HalfPage, 2))
	for v, data := range [][]byte{pattern(hsn.HalfPage, 5), pattern(hsn.HalfPage-8, 6), pattern(hsn.MaxPage, 7)} {
		_, st := s.put(key, uint64(v+2), data)
		if want := [...]status{statusOK, statusOK, statusFull}[v]; st != want {
			t.Errorf("version %d: status %d; expected %d", v+2, st, want)
		}
		if p := s.get(beside); !bytes.Equal(p.data, pattern(hsn.HalfPage, 2)) {
			t.Fatalf("version %d has changed the page beside it", v+2)
		}
	}
	if p := s.get(key); p.version != 3 || !bytes.Equal(p.data, pattern(hsn.HalfPage-8, 6)) || s.frames != 1 {
		t.Errorf("version %d is kept, in %d frames", p.version, s.frames)
	}
	if err := s.counted(); err != nil {
		t.Error(err)
	}
}
