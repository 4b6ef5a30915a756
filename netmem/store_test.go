package netmem

import (
	"bytes"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hsn"
)

// nowhere is an interface that loses all packets.
type nowhere struct{}

func (nowhere) Send(int, hsn.Host, []byte, []byte) bool { return true }
func (nowhere) Done(int) bool                           { return true }
func (nowhere) Receive(*hsn.Buffer) bool                { return false }
func (nowhere) Flush()                                  {}
func (nowhere) Next() (b *hsn.Buffer, n int, h hsn.Host, ok bool) {
	return nil, 0, h, false
}

type shelf struct {
	*store
	d     *hsn.Driver
	slots int
}

// spillTo gives a store a spill file.
func (s *shelf) spillTo(t *testing.T, slots int) {
	t.Helper()
	var err error
	if s.spill, err = openSpill(filepath.Join(t.TempDir(), "spill"), int64(slots)*hsn.MaxPage); err != nil {
		t.Fatal(err)
	}
	s.slots = slots
	t.Cleanup(func() { s.spill.close() })
}

func newShelf(t *testing.T, frames int) *shelf {
	n := frames + serverSpare
	pool := hsn.NewPool(hsn.MaxPage, make([]byte, n*hsn.MaxPage), make([]byte, n*hsn.RestBytes))
	d, err := hsn.New(hsn.Config{PageBytes: hsn.MaxPage, Modules: [2]hsn.Module{{Receive: func(clock.Time, hsn.Message) {}}}}, nowhere{}, pool)
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{newStore(pool, frames), d, 0}
}

// put receives a page, as the driver would, and stores it.
func (s *shelf) put(key pageKey, version uint64, data []byte) (uint64, status) {
	m := hsn.Message{Buffers: [2]*hsn.Buffer{s.pool.Take()}}
	m.Data = m.Buffers[0].Page[:copy(m.Buffers[0].Page, data)]
	if len(data) == hsn.MaxPage {
		m.Buffers[1] = s.pool.Take()
	}
	defer s.d.Free(&m)
	for {
		p, st, _ := s.store.put(key, version, shape{sum: crc32.Checksum(m.Data, castagnoli)}, 0, &m)
		// If all frames are being sent, the client of the page asks again.
		if st != statusBusy || len(s.transfers) == 0 {
			s.evictBeyond()
			s.move()
			v := uint64(0)
			if p != nil {
				v = p.version
			}
			return v, st
		}
		s.one()
	}
}

// one runs the next read or write of the file.
func (s *shelf) one() {
	t := s.next()
	if t == nil {
		panic("a page is neither here nor on its way")
	}
	t.do(s.spill.f)
	s.finish(t)
}

// get returns a page. If the page is in the spill file, get first brings it back.
func (s *shelf) get(key pageKey) *stored {
	p, _ := s.store.get(key)
	for p != nil && p.data == nil {
		s.one()
		p, _ = s.store.get(key)
	}
	if p != nil {
		defer s.unpin(s.pin(p)) // it stays for now
	}
	s.evictBeyond()
	s.move()
	return p
}

// move runs all waiting reads and writes.
func (s *shelf) move() {
	for t := s.next(); t != nil; t = s.next() {
		t.do(s.spill.f)
		s.finish(t)
		s.evictBeyond()
	}
}

func pattern(n int, v uint64) []byte {
	return bytes.Repeat([]byte{byte(v), byte(v >> 8), 7, byte(n >> 8)}, n/4)
}

// If two client pages share a page of the server, the first stays where it was received and the
// second is copied. So half of the pages are copied.
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
	for p := range s.all() {
		key := p.key
		if p := s.get(key); &p.data[0] != &p.frame.b.Page[0] {
			t.Errorf("page %d does not lie where it came", key.page)
		}
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
	if s.discard(k, 3); s.get(k) != nil || s.frames != 0 || len(s.tenants) != 0 {
		t.Error("a discarded page, or its frame, is still there")
	}
}

// The test compares a store with the simplest store: a map. Pages that are being sent keep their
// bytes, and no buffer is lost.
func TestAStoreKeepsWhatAMapWould(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		s := newShelf(t, 1+r.IntN(12))
		if seed%2 == 1 {
			s.spillTo(t, 1+r.IntN(12))
		}
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
				n := [2]int{hsn.HalfPage, hsn.MaxPage}[r.IntN(2)]
				if seed%4 >= 2 && r.IntN(3) > 0 { // compressed
					n = 4 * (1 + r.IntN(n/4)>>r.IntN(6))
				}
				data := pattern(n, v*31+uint64(key.owner.Index))
				if _, st := s.put(key, v, data); st == statusOK && model[key].version < v {
					model[key] = kept{v, data}
				} else if st != statusOK && st != statusFull && (st != statusBusy || len(pins) == 0) {
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
			slots := map[int64]bool{}
			for p := range s.all() {
				if p.data == nil {
					slots[p.frame.slot] = true
				}
			}
			if s.spill != nil && len(slots)+len(s.spill.free) != s.slots {
				t.Fatalf("seed %d: %d slots of the spill file are used and %d free, of %d", seed, len(slots), len(s.spill.free), s.slots)
			}
			bytesOf := map[weft.Name]int{}
			for key, k := range model {
				p := s.get(key)
				if p == nil || p.version != k.version || !bytes.Equal(p.data, k.data) {
					t.Fatalf("seed %d: page %v is not kept as it was put", seed, key)
				}
				bytesOf[key.owner] += placeBytes(classOf(len(k.data)))
			}
			if err := s.counted(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if s.count() != len(model) || s.used(key.owner) != bytesOf[key.owner] || s.pool.Len()+s.frames != total {
				t.Fatalf("seed %d: %d pages of %d, %d bytes of an owner of %d, %d buffers of %d", seed, s.count(), len(model),
					s.used(key.owner), bytesOf[key.owner], s.pool.Len()+s.frames, total)
			}
		}
	}
}

func TestWhatAStoreHasNoRoomForGoesToItsFile(t *testing.T) {
	s := newShelf(t, 4)
	s.spillTo(t, 16)
	for i := range uint64(40) {
		if _, st := s.put(pageKey{page: i}, 1, pattern(hsn.HalfPage, i)); st != statusOK {
			t.Fatalf("page %d of 40 in 20 frames: status %d", i, st)
		}
	}
	if _, st := s.put(pageKey{page: 40}, 1, pattern(hsn.HalfPage, 40)); st != statusFull || s.room() != 0 {
		t.Errorf("one page more: status %d with room for %d bytes", st, s.room())
	}
	out := s.spill.out
	for range 5 {
		s.get(pageKey{page: 3}) // stays in memory, because it is used
		s.get(pageKey{page: 2}) // shares its frame
	}
	if s.spill.out > out+1 {
		t.Errorf("reading a page again and again spilled %d times", s.spill.out-out)
	}
	for i := range uint64(40) {
		if p := s.get(pageKey{page: i}); p == nil || !bytes.Equal(p.data, pattern(hsn.HalfPage, i)) {
			t.Fatalf("page %d does not come back as it was", i)
		}
	}
}

// A page that its disk has damaged is missing, because the client has other copies. The other
// page of the frame is not missing.
func TestAPageThatComesBackDamagedIsMissing(t *testing.T) {
	s := newShelf(t, 1)
	s.spillTo(t, 2)
	for i := range uint64(6) {
		s.put(pageKey{page: i}, 1, pattern(hsn.HalfPage, i))
	}
	p := s.at(pageKey{page: 0})
	if p.data != nil {
		t.Fatal("page 0 was not spilled")
	}
	if _, err := s.spill.f.WriteAt([]byte{99}, (p.frame.slot-1)*hsn.MaxPage+7); err != nil {
		t.Fatal(err)
	}
	if got := s.get(pageKey{page: 0}); got != nil || s.bad != 1 {
		t.Errorf("a damaged page is still there, or not counted: %d", s.bad)
	}
	if got := s.get(pageKey{page: 1}); got == nil || !bytes.Equal(got.data, pattern(hsn.HalfPage, 1)) {
		t.Error("the page beside it is gone, too")
	}
	if _, st := s.put(pageKey{page: 0}, 2, pattern(hsn.HalfPage, 9)); st != statusOK || s.frames != 1 {
		t.Errorf("written again: status %d, %d frames", st, s.frames)
	}
}

// A place is as large as its content needs. From half a frame on, it is at most half as large
// again.
func TestPlacesFitWhatIsInThem(t *testing.T) {
	for n := 1; n <= hsn.MaxPage; n++ {
		class := classOf(n)
		if placeBytes(class) < n || class+1 < classes && placeBytes(class+1) >= n {
			t.Fatalf("%d bytes go into places of %d", n, placeBytes(class))
		}
		if n > placeBytes(classes-1) && n <= hsn.HalfPage && placeBytes(class) > n+n/2 {
			t.Fatalf("%d bytes take %d", n, placeBytes(class))
		}
	}
}

// Pages whose sizes change leave no room that pages of other sizes could not use.
func TestFreePlacesOfOneSizeAreRoomForAnother(t *testing.T) {
	const frames, small = 16, 500
	s := newShelf(t, frames)
	for i := range uint64(frames * 16) {
		if _, st := s.put(pageKey{page: i}, 1, pattern(small, i)); st != statusOK {
			t.Fatalf("page %d of %d bytes: status %d", i, small, st)
		}
	}
	if s.frames != frames || s.room() != 0 {
		t.Fatalf("%d frames with room for %d bytes more", s.frames, s.room())
	}
	for i := range uint64(frames * 16) { // one of four stays: these pages are in all frames
		if i%4 > 0 {
			s.discard(pageKey{page: i}, 1)
		}
	}
	whole := uint64(0)
	for ; ; whole++ {
		if _, st := s.put(pageKey{page: 1000 + whole}, 1, pattern(hsn.MaxPage, whole)); st != statusOK {
			break
		}
	}
	if whole != frames*3/4 {
		t.Errorf("%d whole pages go where three of four places in %d frames are free", whole, frames)
	}
	for i := uint64(0); i < frames*16; i += 4 {
		if p := s.get(pageKey{page: i}); p == nil || !bytes.Equal(p.data, pattern(small, i)) {
			t.Fatalf("page %d is not as it was", i)
		}
	}
}

// A client with pages in the file has moved out. It has many more pages than memory has frames.
// Each new page drops a bounded number of them.
func TestTheRoomOfThoseThatHaveMovedOutIsTakenSomeAtATime(t *testing.T) {
	const frames, left = 8, 10_000
	for what, slots := range map[string]int64{"the file has free slots": 2 * left, "the file is full": left} {
		s := newShelf(t, frames)
		s.spill = &spill{f: zeros{}}
		for slot := slots; slot > 0; slot-- {
			s.spill.free = append(s.spill.free, slot)
		}
		page := make([]byte, hsn.MaxPage)
		n := uint64(0)
		for ; len(s.spill.free) > 0 && n < left; n++ {
			if _, st := s.put(pageKey{weft.Name{App: "a"}, 0, n}, 1, page); st != statusOK {
				t.Fatalf("%s: page %d: status %d", what, n, st)
			}
		}
		s.moveOut(weft.Name{App: "a"})
		most, tries := 0, 0
		for i := uint64(0); i < 2*frames; {
			before := s.leaving / hsn.MaxPage
			_, st := s.put(pageKey{weft.Name{App: "b"}, 0, i}, 1, page)
			most = max(most, before-s.leaving/hsn.MaxPage)
			if st == statusOK {
				i++
			}
			if tries++; tries > 100 || st != statusOK && st != statusBusy {
				t.Fatalf("%s: page %d of the next: status %d", what, i, st)
			}
		}
		if limit := swept * (maxSweeps + 1); slots > left && most > 2*swept || most > limit {
			t.Errorf("%s: %d pages went for one; expected at most %d, or %d while there are slots", what, most, limit, 2*swept)
		}
	}
}

// zeros is a file of zeros.
type zeros struct{}

func (zeros) ReadAt(b []byte, _ int64) (int, error)  { clear(b); return len(b), nil }
func (zeros) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (zeros) Close() error                           { return nil }

// A directory that does not allow the removal of the spill file is left with an empty file: the
// file takes no space for a server that does not start.
func TestASpillFileWhoseNameStaysIsLeftEmpty(t *testing.T) {
	name, refused := filepath.Join(t.TempDir(), "spill"), errors.New("the directory is read-only")
	if _, err := spillInto(name, 4*hsn.MaxPage, func(string) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("%v; expected %v", err, refused)
	}
	if info, err := os.Stat(name); err != nil || info.Size() != 0 {
		t.Errorf("the file that was refused is %+v (%v)", info, err)
	}
}
