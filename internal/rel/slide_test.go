package rel

import (
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/wire"
)

// sliding is a fragment of which only a few parts exist at any time. A part that leaves the
// stretch is overwritten, so that its retransmission would be noticed.
type sliding struct {
	f     *Fragment
	part  int
	parts int
	left  []int // by part in the stretch
	most  uint64
}

func newSliding(id wire.FragmentID, n, part, parts int) *sliding {
	s := &sliding{f: &Fragment{Space: wire.Data, Type: wire.TypeChunk, ID: id, Length: uint64(n), HeaderLen: wire.ChunkLen, Slides: true}, part: part, parts: parts}
	wire.PutChunk(s.f.HeaderBuf[:], 0, id, 0, 0)
	s.extend()
	return s
}

// extend makes parts until the stretch is full.
func (s *sliding) extend() {
	p := s.f.Parts
	for len(p) < s.parts && s.f.Limit < s.f.Length {
		b := make([]byte, min(uint64(s.part), s.f.Length-s.f.Limit))
		for i := range b {
			at := int(s.f.Limit) + i
			b[i] = byte(at ^ at>>8 ^ int(s.f.ID))
		}
		p, s.left = append(p, b), append(s.left, len(b))
		s.f.Limit += uint64(len(b))
	}
	s.f.Slide(p, s.f.Base)
}

func (s *sliding) acked(offset, n uint64) {
	s.most = max(s.most, s.f.Limit-s.f.Base)
	for i := range s.left {
		from := s.f.Base + uint64(i*s.part)
		to := from + uint64(len(s.f.Parts[i]))
		if lo, hi := max(from, offset), min(to, offset+n); lo < hi {
			s.left[i] -= int(hi - lo)
		}
	}
	for len(s.left) > 0 && s.left[0] == 0 {
		gone := s.f.Parts[0]
		s.f.Slide(s.f.Parts[1:], s.f.Base+uint64(len(gone)))
		s.left = s.left[1:]
		for i := range gone {
			gone[i] = 0xdd
		}
	}
	s.extend()
}

// A piece stays in its owner's memory until it is acknowledged, and no longer: a retransmission
// is made from it.
func TestAFragmentMaySlideThroughMemoryShorterThanItself(t *testing.T) {
	for seed := range uint64(20) {
		p := float64(seed%5) * 0.05
		w := newWorld(t, seed, weather{loss: p, dup: p, reorder: p, corrupt: p / 2, jitter: 500 * time.Microsecond})
		var change func(*Config)
		if seed == 0 {
			change = func(c *Config) { c.Reliable, c.Tagged = true, false }
		}
		a, b := w.add(1, change), w.add(2, change)
		b.open(a)
		tr := newTraffic(a, b, 100, nil)
		slides := map[*Fragment]*sliding{}
		for i, n := range []int{200_000, 1, 70_000} {
			s := newSliding(wire.FragmentID(i+1), n, 500+1000*i, 4+20*i)
			slides[s.f] = s
			tr.frags = append(tr.frags, s.f)
			tr.got[s.f.ID] = make([]int, n)
		}
		a.onAcked = func(f *Fragment, offset, n uint64) {
			slides[f].acked(offset, n)
			tr.pump()
		}
		tr.pump()
		w.runUntil(20*time.Second, fmt.Sprintf("seed %d: the transfer", seed), tr.finished)
		w.run(2 * time.Second)
		tr.exactly(t)
		w.quiet()
		for f, s := range slides {
			if f.Base != f.Length || s.most > uint64(s.part*s.parts) {
				t.Errorf("seed %d: fragment %d ends at byte %d of %d, with at most %d in memory", seed, f.ID, f.Base, f.Length, s.most)
			}
		}
	}
}
