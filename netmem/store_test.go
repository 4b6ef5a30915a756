package netmem

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hsn"
)

// nowhere is an interface that loses all.
type nowhere struct{}

func (nowhere) Send(int, hsn.Host, []byte, []byte) bool { return true }
func (nowhere) Done(int) bool                           { return true }
func (nowhere) Receive(*hsn.Buffer) bool                { return false }
func (nowhere) Next() (b *hsn.Buffer, n int, h hsn.Host, ok bool) {
	return nil, 0, h, false
}

type shelf struct {
	*store
	d *hsn.Driver
}

func newShelf(t *testing.T, frames int) *shelf {
	n := frames + serverSpare
	pool := hsn.NewPool(hsn.MaxPage, make([]byte, n*hsn.MaxPage), make([]byte, n*hsn.RestBytes))
	d, err := hsn.New(hsn.Config{PageBytes: hsn.MaxPage, Modules: [2]hsn.Module{{Receive: func(clock.Time, hsn.Message) {}}}}, nowhere{}, pool)
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{newStore(pool, frames), d}
}

// put has a page received, as the driver would, and kept.
func (s *shelf) put(key pageKey, version uint64, data []byte) (uint64, status) {
	m := hsn.Message{Buffers: [2]*hsn.Buffer{s.pool.Take()}}
	m.Data = m.Buffers[0].Page[:copy(m.Buffers[0].Page, data)]
	if len(data) == hsn.MaxPage {
		m.Buffers[1] = s.pool.Take()
	}
	return s.store.put(s.d, key, version, 0, 0, &m)
}

func pattern(n int, v uint64) []byte {
	return bytes.Repeat([]byte{byte(v), byte(v >> 8), 7, byte(n >> 8)}, n/4)
}

// Of two client pages that share a page of the server the first stays where it came, and the second is copied: half of the pages.
func TestOfClientPagesEachSecondOneIsCopied(t *testing.T) { // HSN-17, HSN-40
	s := newShelf(t, 50)
	for i := range uint64(100) {
		if _, st := s.put(pageKey{page: i}, 1, pattern(hsn.HalfPage, i)); st != statusOK {
			t.Fatalf("page %d: status %d", i, st)
		}
	}
	if s.copied != 50*hsn.HalfPage || s.frames != 50 || s.room() != 0 {
		t.Errorf("%d bytes were copied into %d frames, want half of 100 pages into 50", s.copied, s.frames)
	}
	if _, st := s.put(pageKey{page: 100}, 1, pattern(hsn.HalfPage, 1)); st != statusFull {
		t.Errorf("one more page ends with status %d, want full", st)
	}
}

func TestAWholePageIsNotCopied(t *testing.T) { // HSN-19, HSN-27
	s := newShelf(t, 5)
	for i := range uint64(5) {
		s.put(pageKey{page: i}, 1, pattern(hsn.MaxPage, i))
	}
	if s.copied != 0 || s.frames != 5 {
		t.Errorf("%d bytes were copied into %d frames", s.copied, s.frames)
	}
}

func TestAPageOutThatComesLateChangesNothing(t *testing.T) {
	s := newShelf(t, 5)
	k := pageKey{page: 1}
	s.put(k, 3, pattern(hsn.HalfPage, 3))
	for _, late := range []uint64{1, 2, 3} {
		if v, st := s.put(k, late, pattern(hsn.HalfPage, late)); v != 3 || st != statusOK {
			t.Errorf("version %d behind 3: kept is %d, status %d", late, v, st)
		}
	}
	if !bytes.Equal(s.get(k).data, pattern(hsn.HalfPage, 3)) {
		t.Error("an older version has taken the place of a newer one")
	}
	if s.discard(k, 2); s.get(k) == nil {
		t.Error("a discard of an older version took a newer one away")
	}
	if s.discard(k, 3); s.get(k) != nil || s.frames != 0 || len(s.owners) != 0 {
		t.Error("a discarded page, or its frame, is still there")
	}
}

// A store against the dumbest one: a map. Pages that are being sent keep their bytes, and no buffer is lost.
func TestAStoreKeepsWhatAMapWould(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := newShelf(t, 1+r.IntN(12))
		total := s.pool.Len()
		type kept struct {
			version uint64
			data    []byte
		}
		type pinned struct {
			f          *frame
			data, want []byte
		}
		model := map[pageKey]kept{}
		var pins []pinned
		for version := uint64(1); version < 600; version++ {
			key := pageKey{owner: weft.Name{App: "c", Index: uint32(r.IntN(2))}, page: uint64(r.IntN(12))}
			switch r.IntN(8) {
			case 0, 1, 2, 3:
				v := version
				if r.IntN(8) == 0 {
					v = 1 + r.Uint64N(version) // late
				}
				data := pattern([2]int{hsn.HalfPage, hsn.MaxPage}[r.IntN(2)], v*31+uint64(key.owner.Index))
				if _, st := s.put(key, v, data); st == statusOK && model[key].version < v {
					model[key] = kept{v, data}
				} else if st != statusOK && st != statusFull {
					t.Fatalf("seed %d: status %d", seed, st)
				}
			case 4:
				if k, ok := model[key]; ok && r.IntN(2) == 0 {
					s.discard(key, k.version)
					delete(model, key)
				}
			case 5, 6:
				if p := s.get(key); p != nil && len(pins) < 8 {
					pins = append(pins, pinned{s.pin(p), p.data, bytes.Clone(p.data)})
				}
			case 7:
				if len(pins) > 0 {
					if p := pins[0]; !bytes.Equal(p.data, p.want) {
						t.Fatalf("seed %d: a page has changed while it was being sent", seed)
					}
					s.unpin(pins[0].f)
					pins = pins[1:]
				}
			}
			bytesOf := map[weft.Name]int{}
			for key, k := range model {
				p := s.get(key)
				if p == nil || p.version != k.version || !bytes.Equal(p.data, k.data) {
					t.Fatalf("seed %d: page %v is not kept as it was put", seed, key)
				}
				bytesOf[key.owner] += len(k.data)
			}
			if len(s.pages) != len(model) || s.owners[key.owner] != bytesOf[key.owner] || s.pool.Len()+s.frames != total {
				t.Fatalf("seed %d: %d pages of %d, %d bytes of an owner of %d, %d buffers of %d", seed, len(s.pages), len(model),
					s.owners[key.owner], bytesOf[key.owner], s.pool.Len()+s.frames, total)
			}
		}
	}
}
