package netmem

import (
	"iter"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/mutate"
)

// tenant is one life of a client, and its pages in a store.
//
//	first page ─► a tenant ─► last page dropped ─► none
//	                 └──────► moveOut: its room counts as free ─► sweep drops its pages in steps
//
// A sweep runs with each new page and on its own. To drop all pages of a client at once would delay
// other requests: there may be millions.
type tenant struct {
	owner weft.Name
	pages map[pageKey]*stored
	list  []*stored             // the same pages, in an order that a simulation repeats
	uses  map[uint64]*VolumeUse // by volume
	used  int                   // bytes of the places of its pages
	out   bool                  // it has moved out
}

const (
	// swept is the number of pages of moved-out tenants that are dropped with each new page.
	swept = 64

	// maxSweeps is the largest number of such sweeps that one new page may wait for. There may be
	// millions of pages in the spill file, and dropping them frees no memory. To wait for all of
	// them would delay every request.
	maxSweeps = 64
)

// at returns the page with a key; nil if there is none.
func (s *store) at(key pageKey) *stored {
	if t := s.tenants[key.owner]; t != nil {
		return t.pages[key]
	}
	return nil
}

// used returns the number of bytes of the places that hold an owner's pages.
func (s *store) used(owner weft.Name) int {
	if t := s.tenants[owner]; t != nil {
		return t.used
	}
	return 0
}

// all iterates over the stored pages.
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

// count returns the number of stored pages.
func (s *store) count() (n int) {
	for _, t := range s.tenants {
		n += len(t.pages)
	}
	return n
}

// clients returns the number of clients that have pages.
func (s *store) clients() (n int) {
	for owner := range s.tenants {
		if owner.App != shelfApp {
			n++
		}
	}
	return n
}

// moveIn adds a page to the pages of its owner.
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

// moved removes a page from the pages of its owner.
func (s *store) moved(p *stored) {
	t, n := p.of, len(p.of.list)-1
	if t.pages[p.key] == p {
		delete(t.pages, p.key)
	}
	t.list[p.at], t.list[n].at = t.list[n], p.at
	t.list[n], t.list = nil, t.list[:n]
	s.charge(p, -1)
}

// moveOut forgets an owner and its pages. sweep drops the pages later in steps.
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

// sweep drops some pages of moved-out tenants. It reports whether there was such a tenant.
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

// sweepLess calls sweep if n, which it decrements, was above 0.
func (s *store) sweepLess(n *int) bool {
	*n--
	return *n >= 0 && s.sweep()
}

// charge adds a page to the counts of its owner and its volume, or removes it.
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
