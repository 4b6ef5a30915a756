package netmem

import (
	"slices"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/internal/mutate"
)

// A store is the page cache of a server. A page stays in the buffer that it was received into (HSN-27). Two client pages of half the
// server's page size share one: the first is where it came, the second is copied behind it (HSN-17). So do several that are smaller,
// since they are compressed, or shards of a page: a frame has as many places as fit of the size that such a page needs.
//
//	received 4 KiB ─┬─ a frame has a free place of its size ─► copied there; the buffer is free again
//	                └─ none has ─────────────────────────────► its buffer becomes a frame, whose other places are free
//	received 8 KiB ──────────────────────────────────────────► its buffer becomes a frame
//
// When all frames are used, one that was not asked for lately goes to the spill file, if there is one, and comes back when it is.
type store struct {
	pool   *hsn.Pool
	limit  int               // frames in memory
	frames int               // that are there
	open   [classes][]*frame // with a free place, in memory, and nothing of them is being sent
	loose  [classes]int      // free places in these
	clock  []*frame          // all in memory
	hand   int
	spill  *spill // nil: none
	copied uint64 // bytes of pages
	defect mutate.PageDefect
	bad    uint64 // pages that came back from the spill file with other bytes, or not at all

	transfers         []*transfer // to and from the spill file that have yet to begin
	evicting, loading int         // frames that are on their way there, and back

	tenants map[weft.Name]*tenant // that have pages
	out     []*tenant             // that have moved out, and whose pages still have places
	leaving int                   // bytes of these
}

type pageKey struct {
	owner        weft.Name
	volume, page uint64
}

// frame is a page of the server.
type frame struct {
	b      *hsn.Buffer // nil: it is in the spill file, or free
	slot   int64       // of the spill file, if it is there
	class  int         // how large its places are
	places []*stored   // nil: free
	held   int         // of them
	loose  int         // of them, as the store counts them
	pins   int         // answers with what is in it are being sent, or it is on its way to the spill file or back
	moving bool        // it is that
	waits  []request   // until it is back
	used   bool        // since the hand came by

	inOpen, inClock int // where it is in these lists; -1: not
}

// stored is a page of a client, or the shard of it that this server has.
type stored struct {
	key     pageKey
	of      *tenant
	at      int // where it is in the tenant's list
	version uint64
	shape
	n     int
	data  []byte // while its frame is in memory
	frame *frame
}

// overwriting is how many frames more than its limit a store may have for a while: new versions of pages that are being sent, and what is
// on its way to the spill file or back.
const overwriting = serverSpare / 3

func newStore(pool *hsn.Pool, limit int) *store {
	return &store{pool: pool, limit: limit, tenants: map[weft.Name]*tenant{}}
}

// room is how many bytes the store could still take.
func (s *store) room() int {
	n := s.leaving + (s.limit-s.frames+s.evicting+s.loading)*hsn.MaxPage
	for class, free := range s.loose {
		n += free * placeBytes(class)
	}
	if s.spill != nil {
		n += len(s.spill.free) * hsn.MaxPage
	}
	return n
}

// put keeps a page, whose buffers become the store's if it needs them: they are no longer the message's then. An older version than the one
// that is kept, or the same, changes nothing. It returns the page that is kept, if it could keep one. If the store is busy with its spill
// file, and has to have a frame back first, it returns that, too.
func (s *store) put(key pageKey, version uint64, what shape, quota int, m *hsn.Message) (*stored, status, *frame) {
	s.sweep()
	old := s.at(key)
	n := len(m.Data)
	if n == 0 || n > hsn.MaxPage {
		return nil, statusBad, nil
	}
	class := classOf(n)
	switch {
	case old != nil && old.version >= version && s.defect != mutate.PagesOlderOverwrites:
		return old, statusOK, nil
	case quota > 0 && s.used(key.owner)+placeBytes(class)-old.bytes() > quota:
		return nil, statusQuota, nil
	case old != nil && old.data == nil && len(s.spill.free) == 0: // nothing else could be spilled to make room for the new version
		return nil, statusBusy, s.load(old.frame)
	}
	p := &stored{key: key, version: version, shape: what, n: n}
	here := old != nil && old.data != nil // not in the spill file
	switch {
	case len(s.open[class]) > 0:
		s.copyIn(p, m.Data)
	case s.fits() || here && (old.last() || old.frame.pins > 0 && s.frames < s.limit+overwriting):
		s.takeIn(p, m)
	case here && s.holds(old, class, n) && old.frame.pins == 0: // the new version takes the place of the old one
		s.overwrite(old, p, m.Data)
		return old, statusOK, nil
	default:
		if st := s.makeRoom(); st != statusOK {
			return nil, st, nil
		}
		s.takeIn(p, m)
	}
	if old != nil {
		s.drop(old)
	}
	s.moveIn(p)
	return p, statusOK, nil
}

// holds reports whether a page's place is right for so many bytes, of a class.
func (s *store) holds(p *stored, class, n int) bool {
	if s.defect == mutate.PagesPlaceOverrun && p.frame.class > 0 {
		return len(p.frame.b.Page[slices.Index(p.frame.places, p)*placeBytes(p.frame.class):]) >= n
	}
	return p.frame.class == class
}

// overwrite puts another version into the place of a page.
func (s *store) overwrite(old, p *stored, data []byte) {
	s.charge(old, -1)
	old.version, old.shape, old.n = p.version, p.shape, p.n
	old.data = old.frame.part(old, slices.Index(old.frame.places, old))
	s.copied += uint64(copy(old.data, data))
	s.charge(old, 1)
}

// copyIn puts a page into a free place of a frame.
func (s *store) copyIn(p *stored, data []byte) {
	l := s.open[classOf(p.n)]
	s.place(p, l[len(l)-1], data)
}

// place puts a page into a free place of one frame.
func (s *store) place(p *stored, f *frame, data []byte) {
	i := slices.Index(f.places, nil)
	f.places[i], p.frame = p, f
	f.held++
	p.data = f.part(p, i)
	f.used = true
	s.copied += uint64(copy(p.data, data))
	s.settle(f)
}

// takeIn makes the buffer of a message a frame.
func (s *store) takeIn(p *stored, m *hsn.Message) {
	class := classOf(p.n)
	f := &frame{b: m.Buffers[0], class: class, places: make([]*stored, places[class]), held: 1, used: true, inOpen: -1, inClock: -1}
	m.Buffers[0] = nil
	f.places[0] = p
	p.frame, p.data = f, f.part(p, 0)
	s.frames++
	s.settle(f)
}

// part is where a page lies that has the i-th place of a frame.
func (f *frame) part(p *stored, i int) []byte {
	return f.b.Page[i*placeBytes(f.class):][:p.n:p.n]
}

// get finds a page. If it is in the spill file, its data is nil, and the store has begun to bring it back in the frame that it returns,
// unless that is nil: then it cannot just now.
func (s *store) get(key pageKey) (p *stored, away *frame) {
	if p = s.at(key); p == nil {
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
	if p := s.at(key); p != nil && p.version <= version {
		s.drop(p)
	}
}

// drop takes a page out.
func (s *store) drop(p *stored) {
	s.moved(p)
	s.leave(p)
}

// leave frees a page's place.
func (s *store) leave(p *stored) {
	f := p.frame
	f.places[slices.Index(f.places, p)] = nil
	f.held--
	s.settle(f)
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

// settle brings a frame where it belongs: to those with a free place, or back to the pool. What is being sent stays as it is.
func (s *store) settle(f *frame) {
	switch {
	case f.b != nil && f.held == 0 && f.pins == 0:
		s.free(f)
	case f.b == nil && f.held == 0 && f.pins == 0 && f.slot > 0:
		s.spill.release(f.slot)
		f.slot = 0
	}
	free := 0
	if f.b != nil && f.pins == 0 && f.held > 0 {
		free = len(f.places) - f.held
	}
	s.loose[f.class] += free - f.loose
	f.loose = free
	list(&s.open[f.class], f, free > 0, func(f *frame) *int { return &f.inOpen })
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

// bytes is how many bytes a page's place has; none if there is none.
func (p *stored) bytes() int {
	if p == nil {
		return 0
	}
	return placeBytes(p.frame.class)
}

// last reports whether a page's frame is free without it.
func (p *stored) last() bool { return p.frame.pins == 0 && p.frame.held == 1 }
