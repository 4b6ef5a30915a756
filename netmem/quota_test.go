package netmem

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/weftnet/weft/internal/hsn"
)

// within is like put, for a client that has a quota.
func (s *shelf) within(quota int, key pageKey, version uint64, data []byte) status {
	m := hsn.Message{Buffers: [2]*hsn.Buffer{s.pool.Take()}}
	m.Data = m.Buffers[0].Page[:copy(m.Buffers[0].Page, data)]
	defer s.d.Free(&m)
	_, st, _ := s.store.put(key, version, shape{sum: crc32.Checksum(m.Data, castagnoli)}, quota, &m)
	return st
}

// A client at its full quota may still write each of its pages again, also with shorter content.
// It never has more than the quota.
func TestAPageIsOverwrittenAtFullQuota(t *testing.T) {
	s := newShelf(t, 8)
	const quota = 2 * hsn.HalfPage
	key := func(i uint64) pageKey { return pageKey{page: i} }
	wants := func(what string, got, want status) {
		t.Helper()
		if got != want {
			t.Errorf("%s: status %d, expected %d", what, got, want)
		}
		if used := s.used(key(0).owner); used > quota {
			t.Errorf("%s: the client has %d bytes of %d", what, used, quota)
		}
	}
	wants("the first page", s.within(quota, key(0), 1, pattern(hsn.HalfPage, 1)), statusOK)
	wants("the last byte of the quota", s.within(quota, key(1), 1, pattern(hsn.HalfPage, 2)), statusOK)
	wants("one page more", s.within(quota, key(2), 1, pattern(hsn.HalfPage, 3)), statusQuota)
	wants("one small page more", s.within(quota, key(2), 1, []byte("small")), statusQuota)
	wants("the first page again", s.within(quota, key(0), 2, pattern(hsn.HalfPage, 4)), statusOK)
	if p := s.get(key(0)); p == nil || p.version != 2 || !bytes.Equal(p.data, pattern(hsn.HalfPage, 4)) {
		t.Error("the first page is not as it was written again")
	}
	wants("the first page again, longer", s.within(quota, key(0), 3, pattern(hsn.MaxPage, 5)), statusQuota)
	wants("the first page again, shorter", s.within(quota, key(0), 4, pattern(hsn.HalfPage/8, 6)), statusOK)
	wants("a page in the room that this left", s.within(quota, key(2), 1, pattern(hsn.HalfPage/8, 7)), statusOK)
	s.discard(key(1), 1)
	wants("a page in the place of one that was discarded", s.within(quota, key(3), 1, pattern(hsn.HalfPage, 8)), statusOK)
}

// sickFile is a file that fails to write while it is sick.
type sickFile struct {
	file
	sick bool
}

func (f *sickFile) WriteAt(b []byte, at int64) (int, error) {
	if f.sick {
		return 0, errors.New("the disk is sick")
	}
	return f.file.WriteAt(b, at)
}

// A disk may be full or away for a while. When it accepts a frame again, the store uses all of
// the file as before.
func TestADiskThatIsWellAgainTakesAllThatItTookBefore(t *testing.T) {
	s := newShelf(t, 4)
	s.spillTo(t, 8)
	disk := &sickFile{file: s.spill.f, sick: true}
	s.spill.f = disk
	page := func(i uint64) (st status) { // tries a few times, as a client does
		for range 10 {
			if st = s.within(0, pageKey{page: i}, 1, pattern(hsn.MaxPage, i)); st != statusBusy && st != statusFull {
				return st
			}
			for t := s.next(); t != nil; t = s.next() {
				t.do(s.spill.f)
				s.finish(t)
			}
		}
		return st
	}
	kept := uint64(0)
	for page(kept) == statusOK {
		if kept++; kept == 4+overwriting+1 {
			t.Fatal("a store takes more and more pages though its disk takes none")
		}
	}
	if kept < 4 || !s.spill.sick {
		t.Fatalf("%d pages are kept in 4 frames, and the disk counts as sick: %v", kept, s.spill.sick)
	}
	if len(s.spill.free) != 8 {
		t.Errorf("%d slots of 8 are free behind writes that failed", len(s.spill.free))
	}
	disk.sick = false
	for range 20 {
		s.evictBeyond()
		for t := s.next(); t != nil; t = s.next() {
			t.do(s.spill.f)
			s.finish(t)
		}
	}
	if s.frames > 4 || s.spill.sick || s.spill.out == 0 {
		t.Errorf("%d frames are in memory, the disk counts as sick: %v, and %d frames went to it", s.frames, s.spill.sick, s.spill.out)
	}
	for i := kept; i < 12; i++ {
		if st := page(i); st != statusOK {
			t.Fatalf("page %d of 12 on a disk that is well again: status %d", i, st)
		}
	}
	for i := range uint64(12) {
		if p := s.at(pageKey{page: i}); p == nil {
			t.Errorf("page %d is gone", i)
		}
	}
}
