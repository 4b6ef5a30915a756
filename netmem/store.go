package netmem

import (
	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/internal/mutate"
)

// A store is the page cache of a server. A page stays in the buffer that it was received into (HSN-27). Two client pages of half the
// server's page size share one: the first is where it came, the second is copied behind it (HSN-17).
//
//	received 4 KiB ─┬─ a frame has a free half ─► copied there; the buffer is free again
//	                └─ none has ────────────────► its buffer becomes a frame, whose second half is free
//	received 8 KiB ─────────────────────────────► its buffer becomes a frame
//
// When all frames are used, one that was not asked for lately goes to the spill file, if there is one, and comes back when it is.
type store struct {
	pool   *hsn.Pool
	limit  int // frames in memory
	frames int // that are there
	pages  map[pageKey]*stored
	open   []*frame // with a free half, in memory, and nothing of them is being sent
	clock  []*frame // all in memory
	hand   int
	spill  *spill // nil: none
	owners map[weft.Name]int
	copied uint64 // bytes of pages
	defect mutate.PageDefect
	bad    uint64 // pages that came back from the spill file with other bytes, or not at all

	transfers         []*transfer // to and from the spill file that have yet to begin
	evicting, loading int         // frames that are on their way there, and back
}

type pageKey struct {
	owner        weft.Name
	volume, page uint64
}

// frame is a page of the server.
type frame struct {
	b      *hsn.Buffer // nil: it is in the spill file, or free
	slot   int64       // of the spill file, if it is there
	halves [2]*stored  // the same twice: a page that fills it
	pins   int         // answers with what is in it are being sent, or it is on its way to the spill file or back
	moving bool        // it is that
	waits  []request   // until it is back
	used   bool        // since the hand came by

	inOpen, inClock int // where it is in these lists; -1: not
}

type stored struct {
	key     pageKey
	version uint64
	crc     uint32
	n       int
	data    []byte // while its frame is in memory
	frame   *frame
}

// overwriting is how many frames more than its limit a store may have for a while: new versions of pages that are being sent, and what is
// on its way to the spill file or back.
const overwriting = serverSpare / 3

func newStore(pool *hsn.Pool, limit int) *store {
	return &store{pool: pool, limit: limit, pages: map[pageKey]*stored{}, owners: map[weft.Name]int{}}
}

// room is how many bytes the store could still take.
func (s *store) room() int {
	n := (s.limit-s.frames+s.evicting+s.loading)*hsn.MaxPage + len(s.open)*hsn.HalfPage
	if s.spill != nil {
		n += len(s.spill.free) * hsn.MaxPage
	}
	return n
}

// put keeps a page, whose buffers become the store's if it needs them: they are no longer the message's then. An older version than the one
// that is kept, or the same, changes nothing. It returns the version that is kept. If the store is busy with its spill file, and has to
// have a frame back first, it returns that, too.
func (s *store) put(key pageKey, version uint64, crc uint32, quota int, m *hsn.Message) (uint64, status, *frame) {
	old := s.pages[key]
	n := len(m.Data)
	switch {
	case n != hsn.HalfPage && n != hsn.MaxPage:
		return 0, statusBad, nil
	case old != nil && old.version >= version && s.defect != mutate.PagesOlderOverwrites:
		return old.version, statusOK, nil
	case quota > 0 && s.owners[key.owner]+n-old.size() > quota:
		return 0, statusQuota, nil
	case old != nil && old.data == nil && len(s.spill.free) == 0: // nothing else could be spilled to make room for the new version
		return 0, statusBusy, s.load(old.frame)
	}
	p := &stored{key: key, version: version, crc: crc, n: n}
	here := old != nil && old.data != nil // not in the spill file
	switch {
	case n == hsn.HalfPage && len(s.open) > 0:
		s.copyIn(p, m.Data)
	case s.fits() || here && (old.last() || old.frame.pins > 0 && s.frames < s.limit+overwriting):
		s.takeIn(p, m)
	case here && old.n == n && old.frame.pins == 0: // the new version takes the place of the old one
		old.version, old.crc = version, crc
		s.copied += uint64(copy(old.data, m.Data))
		return version, statusOK, nil
	default:
		if st := s.makeRoom(); st != statusOK {
			return old.versionOr(0), st, nil
		}
		s.takeIn(p, m)
	}
	if old != nil {
		s.drop(old)
	}
	s.pages[key] = p
	s.owners[key.owner] += n
	return version, statusOK, nil
}

// copyIn puts half a page into the free half of a frame.
func (s *store) copyIn(p *stored, data []byte) {
	f := s.open[len(s.open)-1]
	i := 0
	if f.halves[0] != nil {
		i = 1
	}
	f.halves[i], p.frame = p, f
	p.data = f.part(p, i)
	f.used = true
	s.copied += uint64(copy(p.data, data))
	s.settle(f)
}

// takeIn makes the buffer of a message a frame.
func (s *store) takeIn(p *stored, m *hsn.Message) {
	f := &frame{b: m.Buffers[0], halves: [2]*stored{p}, used: true, inOpen: -1, inClock: -1}
	m.Buffers[0] = nil
	if len(m.Data) == hsn.MaxPage {
		f.halves[1] = p
	}
	p.frame, p.data = f, m.Data
	s.frames++
	s.settle(f)
}

// part is where the i-th half of a frame lies, or the page that fills it.
func (f *frame) part(p *stored, i int) []byte {
	if p.n == hsn.MaxPage {
		return f.b.Page
	}
	return f.b.Page[i*hsn.HalfPage:][:hsn.HalfPage:hsn.HalfPage]
}

// get finds a page. If it is in the spill file, its data is nil, and the store has begun to bring it back in the frame that it returns,
// unless that is nil: then it cannot just now.
func (s *store) get(key pageKey) (p *stored, away *frame) {
	if p = s.pages[key]; p == nil {
		return nil, nil
	}
	if p.data == nil {
		return p, s.load(p.frame)
	}
	p.frame.used = true
	return p, nil
}

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
	if s.owners[p.key.owner] -= p.n; s.owners[p.key.owner] == 0 {
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
	empty := f.halves == [2]*stored{}
	switch {
	case f.b != nil && empty && f.pins == 0:
		s.free(f)
	case f.b == nil && empty && f.pins == 0 && f.slot > 0:
		s.spill.release(f.slot)
		f.slot = 0
	}
	half := f.b != nil && f.pins == 0 && (f.halves[0] == nil) != (f.halves[1] == nil)
	list(&s.open, f, half, func(f *frame) *int { return &f.inOpen })
	list(&s.clock, f, f.b != nil, func(f *frame) *int { return &f.inClock })
}

// free gives a frame's buffer back to the pool.
func (s *store) free(f *frame) {
	s.pool.Free(f.b)
	f.b = nil
	s.frames--
}

// list has a frame be in a list, or not. at is where a frame notes its place there.
func list(l *[]*frame, f *frame, in bool, at func(*frame) *int) {
	switch i := *at(f); {
	case in && i < 0:
		*at(f) = len(*l)
		*l = append(*l, f)
	case !in && i >= 0:
		last := len(*l) - 1
		(*l)[i] = (*l)[last]
		*at((*l)[i]) = i
		*at(f) = -1
		(*l)[last] = nil
		*l = (*l)[:last]
	}
}

// size is how many bytes a page has; none if there is none.
func (p *stored) size() int {
	if p == nil {
		return 0
	}
	return p.n
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
