package netmem

import (
	"slices"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
)

// A store is the page cache of a server. A page stays in the buffer that it was received into (HSN-27). Two client pages of half the
// server's page size share one: the first is where it came, the second is copied behind it (HSN-17).
//
//	received 4 KiB ─┬─ a frame has a free half ─► copied there; the buffer is free again
//	                └─ none has ────────────────► its buffer becomes a frame, whose second half is free
//	received 8 KiB ─────────────────────────────► its buffer becomes a frame
type store struct {
	pool   *hsn.Pool
	limit  int // frames
	frames int
	pages  map[pageKey]*stored
	open   []*frame // with a free half, and nothing of them is being sent
	owners map[weft.Name]int
	copied uint64 // bytes of pages
}

type pageKey struct {
	owner        weft.Name
	volume, page uint64
}

// frame is a page of the server.
type frame struct {
	b      *hsn.Buffer
	halves [2]*stored // the same twice: a page that fills it
	pins   int        // answers with what is in it are being sent
}

type stored struct {
	key     pageKey
	version uint64
	crc     uint32
	data    []byte
	frame   *frame
}

// overwriting is how many frames more than its limit a store may have for a while: new versions of pages that are being sent.
const overwriting = serverSpare / 2

func newStore(pool *hsn.Pool, limit int) *store {
	return &store{pool: pool, limit: limit, pages: map[pageKey]*stored{}, owners: map[weft.Name]int{}}
}

// room is how many bytes the store could still take.
func (s *store) room() int { return (s.limit-s.frames)*hsn.MaxPage + len(s.open)*hsn.HalfPage }

// put keeps a page, whose buffers become the store's or are freed. An older version than the one that is kept, or the same, changes
// nothing. It returns the version that is kept.
func (s *store) put(d *hsn.Driver, key pageKey, version uint64, crc uint32, quota int, m *hsn.Message) (uint64, status) {
	defer d.Free(m) // what put has not taken
	old := s.pages[key]
	n := len(m.Data)
	switch {
	case n != hsn.HalfPage && n != hsn.MaxPage:
		return 0, statusBad
	case old != nil && old.version >= version:
		return old.version, statusOK
	case quota > 0 && s.owners[key.owner]+n-old.size() > quota:
		return 0, statusQuota
	}
	p := &stored{key: key, version: version, crc: crc}
	switch {
	case n == hsn.HalfPage && len(s.open) > 0:
		s.copyIn(p, m.Data)
	case s.frames < s.limit || old != nil && (old.last() || old.frame.pins > 0 && s.frames < s.limit+overwriting):
		s.takeIn(p, m)
	case old.size() == n && old.frame.pins == 0: // the new version takes the place of the old one
		old.version, old.crc = version, crc
		s.copied += uint64(copy(old.data, m.Data))
		return version, statusOK
	default:
		return old.versionOr(0), statusFull
	}
	if old != nil {
		s.drop(old)
	}
	s.pages[key] = p
	s.owners[key.owner] += n
	return version, statusOK
}

// copyIn puts half a page into the free half of a frame.
func (s *store) copyIn(p *stored, data []byte) {
	f := s.open[len(s.open)-1]
	i := 0
	if f.halves[0] != nil {
		i = 1
	}
	f.halves[i], p.frame = p, f
	p.data = f.b.Page[i*hsn.HalfPage:][:hsn.HalfPage:hsn.HalfPage]
	s.copied += uint64(copy(p.data, data))
	s.settle(f)
}

// takeIn makes the buffer of a message a frame.
func (s *store) takeIn(p *stored, m *hsn.Message) {
	f := &frame{b: m.Buffers[0], halves: [2]*stored{p}}
	m.Buffers[0] = nil
	if len(m.Data) == hsn.MaxPage {
		f.halves[1] = p
	}
	p.frame, p.data = f, m.Data
	s.frames++
	s.settle(f)
}

// get finds a page.
func (s *store) get(key pageKey) *stored { return s.pages[key] }

// discard forgets a page of at most this version.
func (s *store) discard(key pageKey, version uint64) {
	if p := s.pages[key]; p != nil && p.version <= version {
		s.drop(p)
	}
}

// drop takes a page out.
func (s *store) drop(p *stored) {
	if s.pages[p.key] == p {
		delete(s.pages, p.key)
	}
	if s.owners[p.key.owner] -= len(p.data); s.owners[p.key.owner] == 0 {
		delete(s.owners, p.key.owner)
	}
	for i, h := range p.frame.halves {
		if h == p {
			p.frame.halves[i] = nil
		}
	}
	s.settle(p.frame)
}

// pin keeps a page's bytes as they are until unpin.
func (s *store) pin(p *stored) *frame {
	p.frame.pins++
	s.settle(p.frame)
	return p.frame
}

func (s *store) unpin(f *frame) {
	f.pins--
	s.settle(f)
}

// settle brings a frame where it belongs: to those with a free half, or back to the pool. What is being sent stays as it is.
func (s *store) settle(f *frame) {
	i := slices.Index(s.open, f)
	half := f.pins == 0 && (f.halves[0] == nil) != (f.halves[1] == nil)
	switch {
	case half && i < 0:
		s.open = append(s.open, f)
	case !half && i >= 0:
		s.open = slices.Delete(s.open, i, i+1)
	}
	if f.pins == 0 && f.halves == [2]*stored{} && f.b != nil {
		s.pool.Free(f.b)
		f.b = nil
		s.frames--
	}
}

// size is how many bytes a page has; none if there is none.
func (p *stored) size() int {
	if p == nil {
		return 0
	}
	return len(p.data)
}

func (p *stored) versionOr(v uint64) uint64 {
	if p == nil {
		return v
	}
	return p.version
}

// last reports whether a page's frame is free without it.
func (p *stored) last() bool {
	f := p.frame
	return f.pins == 0 && (f.halves[0] == p || f.halves[0] == nil) && (f.halves[1] == p || f.halves[1] == nil)
}
