package netmem

import (
	"iter"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/mutate"
)

// tenant is a client in one of its lives, and what it has in a store.
//
//	its first page ─► a tenant ─► its last page goes ─► none
//	                     └──────► moveOut: its room counts as free ─► sweep takes the pages out, some at a time, as others come, and beside them
//
// To take out all pages of a client at once would hold up the others: there may be millions.
type tenant struct {
	owner weft.Name
	pages map[pageKey]*stored
	list  []*stored             // the same, in an order that a simulation repeats
	uses  map[uint64]*VolumeUse // by volume
	used  int                   // bytes of the places of its pages
	out   bool                  // it has moved out
}

const (
	// swept is how many pages of tenants that have moved out go with each page that comes.
	swept = 64

	// maxSweeps is how often as many go for one page that there is no room for otherwise. There may be millions in the spill file, whose going frees no
	// memory: to wait for them would hold up all other requests.
	maxSweeps = 64
)

// at is the page with a key; nil if there is none.
func (s *store) at(key pageKey) *stored {
	if t := s.tenants[key.owner]; t != nil {
		return t.pages[key]
	}
	return nil
}

// used is how many bytes of places an owner's pages have.
func (s *store) used(owner weft.Name) int {
	if t := s.tenants[owner]; t != nil {
		return t.used
	}
	return 0
}

// all are the pages that are kept.
func (s *store) all() iter.Seq[*stored] {
	return func(yield func(*stored) bool) {
		for _, t := range s.tenants {
			for _, p := range t.pages {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// count is how many there are.
func (s *store) count() (n int) {
	for _, t := range s.tenants {
		n += len(t.pages)
	}
	return n
}

// moveIn has a page be one of its owner's.
func (s *store) moveIn(p *stored) {
	t := s.tenants[p.key.owner]
	if t == nil {
		t = &tenant{owner: p.key.owner, pages: map[pageKey]*stored{}, uses: map[uint64]*VolumeUse{}}
		s.tenants[t.owner] = t
	}
	p.of, p.at = t, len(t.list)
	t.pages[p.key], t.list = p, append(t.list, p)
	s.charge(p, 1)
}

// moved takes a page from those of its owner.
func (s *store) moved(p *stored) {
	t, n := p.of, len(p.of.list)-1
	if t.pages[p.key] == p {
		delete(t.pages, p.key)
	}
	t.list[p.at], t.list[n].at = t.list[n], p.at
	t.list[n], t.list = nil, t.list[:n]
	s.charge(p, -1)
}

// moveOut forgets what an owner has.
func (s *store) moveOut(owner weft.Name) {
	t := s.tenants[owner]
	if t == nil || s.defect == mutate.PagesOutlive {
		return
	}
	delete(s.tenants, owner)
	t.out, t.uses = true, nil
	s.out = append(s.out, t)
	s.leaving += t.used
}

// sweep takes out some pages of tenants that have moved out. It reports whether there was one.
func (s *store) sweep() bool {
	if len(s.out) == 0 {
		return false
	}
	t := s.out[0]
	for range min(swept, len(t.list)) {
		s.drop(t.list[len(t.list)-1])
	}
	if len(t.list) == 0 {
		s.out = append(s.out[:0], s.out[1:]...)
	}
	return true
}

// sweepLess is sweep, as long as n, which it counts down, is not zero.
func (s *store) sweepLess(n *int) bool {
	*n--
	return *n >= 0 && s.sweep()
}

// charge counts a page for its owner and its volume, or no more.
func (s *store) charge(p *stored, sign int) {
	t, used := p.of, sign*p.bytes()
	if s.defect == mutate.PagesPlaceKept && sign < 0 {
		used = -p.n
	}
	if t.used += used; t.out {
		s.leaving += used
		return
	}
	u := t.uses[p.key.volume]
	if u == nil {
		u = &VolumeUse{Client: t.owner, Volume: p.key.volume}
		t.uses[p.key.volume] = u
	}
	u.Pages += sign
	u.Plain += int64(sign * p.plain())
	u.Kept += int64(sign * p.n)
	u.Used += int64(used)
	if sign > 0 {
		u.Code = p.code
	}
	if u.Pages == 0 {
		delete(t.uses, p.key.volume)
	}
	if len(t.pages) == 0 && t.used == 0 {
		delete(s.tenants, t.owner)
	}
}
