package netmem

import (
	"slices"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/internal/mutate"
)

// A store is the page cache of a server. A page stays in the buffer that received it, which is then
// a frame. Two client pages of half the server's page size share a frame: the first stays where it
// was received, and the second is copied behind it. Smaller data, such as compressed pages and
// shards, share frames in the same way: a frame has as many places as fit of their size.
//
//	received 4 KiB ─┬─ a frame has a free place of its size ─► copied there; its buffer is free
//	                └─ no frame has ─► its buffer becomes a frame with other free places
//	received 8 KiB ─► its buffer becomes a frame
//
// When all frames are used, one that was not requested lately goes to the spill file, if there is
// one. A request for one of its pages brings it back.
type store struct {
	pool   *hsn.Pool
	limit  int               // most frames in memory
	frames int               // frames in memory
	open   [classes][]*frame // frames in memory with a free place and no answer being sent
	loose  [classes]int      // free places in them
	clock  []*frame          // all frames in memory
	hand   int               // index in clock of the frame looked at last
	spill  *spill            // nil: none
	copied uint64            // page bytes copied
	defect mutate.PageDefect
	bad    uint64 // pages that came back damaged from the spill file

	transfers         []*transfer // not yet begun
	evicting, loading int         // frames on their way to the file and back

	tenants map[weft.Name]*tenant // clients with pages
	out     []*tenant             // moved out, with pages that still have places
	leaving int                   // bytes of these places
}

type pageKey struct {
	owner        weft.Name
	volume, page uint64
}

// frame is a page of the server's memory.
type frame struct {
	b      *hsn.Buffer // nil: it is in the spill file, or free
	slot   int64       // in the spill file; 0: not there
	class  int         // size of its places
	places []*stored   // nil: free
	held   int         // used places
	loose  int         // free places, as counted in store.loose
	pins   int         // answers being sent from it, and its transfer
	moving bool        // a transfer moves it
	waits  []request   // until it is back
	used   bool        // since the clock hand passed

	inOpen, inClock int // index in these lists; -1: not in the list
}

// stored is a page of a client, or the shard of it that this server has.
type stored struct {
	key     pageKey
	of      *tenant
	at      int // index in the tenant's list
	version uint64
	shape
	n     int
	data  []byte // set while its frame is in memory
	frame *frame
}

// overwriting is the number of frames by which a store may briefly exceed its limit. They hold new
// versions of pages that are being sent, and frames in transfer to the spill file or back.
const overwriting = serverSpare / 3

func newStore(pool *hsn.Pool, limit int) *store {
	return &store{pool: pool, limit: limit, tenants: map[weft.Name]*tenant{}}
}

// room returns the number of bytes that the store can still take.
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

// put stores a page and returns the stored page. If it needs the buffers of the message, it takes
// them. If the version is not newer than the stored version, put changes nothing. If a frame must
// first come back from the spill file, put returns this frame with statusBusy.
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
	// No frame could be spilled to make room.
	case old != nil && old.data == nil && len(s.spill.free) == 0:
		return nil, statusBusy, s.load(old.frame)
	}
	p := &stored{key: key, version: version, shape: what, n: n}
	here := old != nil && old.data != nil // not in the spill file
	switch {
	case len(s.open[class]) > 0:
		s.copyIn(p, m.Data)
	case s.fits() || here && (old.last() || old.frame.pins > 0 && s.frames < s.limit+overwriting):
		s.takeIn(p, m)
	// The new version replaces the old one in place.
	case here && s.holds(old, class, n) && old.frame.pins == 0:
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

// holds reports whether a page's place fits n bytes of a class.
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

// copyIn copies a page into a free place of a frame.
func (s *store) copyIn(p *stored, data []byte) {
	l := s.open[classOf(p.n)]
	s.place(p, l[len(l)-1], data)
}

// place copies a page into a free place of one frame.
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
	f := &frame{b: m.Buffers[0], class: class, places: make([]*stored, places[class]), held: 1, used: true,
		inOpen: -1, inClock: -1}
	m.Buffers[0] = nil
	f.places[0] = p
	p.frame, p.data = f, f.part(p, 0)
	s.frames++
	s.settle(f)
}

// part returns the bytes of a page in the i-th place of a frame.
func (f *frame) part(p *stored, i int) []byte {
	return f.b.Page[i*placeBytes(f.class):][:p.n:p.n]
}

// get returns a page. If the page is in the spill file, its data is nil, and away is the frame that
// the store reads back; nil if it cannot now.
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

// discard drops a page of at most this version.
func (s *store) discard(key pageKey, version uint64) {
	if p := s.at(key); p != nil && p.version <= version {
		s.drop(p)
	}
}

// drop removes a page.
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

// pin keeps a page's bytes unchanged until unpin.
func (s *store) pin(p *stored) *frame {
	p.frame.pins++
	s.settle(p.frame)
	return p.frame
}

func (s *store) unpin(f *frame) {
	f.pins--
	s.settle(f)
}

// settle updates the lists that a frame belongs to, or frees it. It does not touch data being sent.
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

// free returns a frame's buffer to the pool.
func (s *store) free(f *frame) {
	s.pool.Free(f.b)
	f.b = nil
	s.frames--
}

// list adds a frame to a list or removes it. at returns where the frame notes its index.
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

// bytes returns the size of a page's place; 0 for no page.
func (p *stored) bytes() int {
	if p == nil {
		return 0
	}
	return placeBytes(p.frame.class)
}

// last reports whether a page's frame would be free without the page.
func (p *stored) last() bool { return p.frame.pins == 0 && p.frame.held == 1 }
