package netmem

import (
	"cmp"
	"slices"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
)

// shelfID identifies a shelf at a server. It is a hash of the key of the shelf, so only clients
// that know the key can use the shelf.
type shelfID uint64

// shelved is what a server knows of a shelf. The pages of a shelf do not belong to a client:
//
//	first page ─► in use ─► the last client that used it ends ─► ServerConfig.Shelve ─► dropped
//	                └─ a client clears it ─► dropped
type shelved struct {
	owner weft.Name  // of its pages in the store
	used  clock.Time // when a client that used it last ended
}

// shelfApp is the application of the owners of shelves in a store. No process can have it.
const shelfApp = "+shelf"

// maxShelves is the largest number of shelves of a server. It bounds the memory that clients can
// take with empty shelves.
const maxShelves = 1024

// onShelf returns the key of the page of a shelf that a request names. It makes the shelf at the
// first write.
func (s *Server) onShelf(r *record, l *life) (pageKey, status) {
	if s.cfg.Shelve == 0 {
		return pageKey{}, statusUnshelved
	}
	id := shelfID(r.room)
	o := s.shelves[id]
	if o == nil {
		if r.op != opPageOut {
			return pageKey{}, statusMissing
		}
		if len(s.shelves) >= maxShelves {
			return pageKey{}, statusFull
		}
		s.shelvings++
		o = &shelved{owner: weft.Name{App: shelfApp, Index: s.shelvings}, used: s.port.now()}
		s.shelves[id] = o
	}
	l.uses(id, s.shelves)
	return pageKey{o.owner, r.volume, r.page}, statusOK
}

// uses records that a client uses a shelf. The record holds at most as many shelves as the server.
func (l *life) uses(id shelfID, all map[shelfID]*shelved) {
	if l.shelves[id] {
		return
	}
	if l.shelves == nil {
		l.shelves = map[shelfID]bool{}
	}
	for old := range l.shelves {
		if all[old] == nil {
			delete(l.shelves, old)
		}
	}
	l.shelves[id] = true
}

// unshelve drops a shelf and its pages.
func (s *Server) unshelve(id shelfID) {
	if o := s.shelves[id]; o != nil {
		delete(s.shelves, id)
		s.store.moveOut(o.owner)
		s.sweepAll()
	}
}

// leavesShelves records that a client has ended, for the shelves that it used.
func (s *Server) leavesShelves(l *life) {
	if l == nil {
		return
	}
	for id := range l.shelves {
		if o := s.shelves[id]; o != nil {
			o.used = s.port.now()
		}
	}
}

// unshelveUnused drops the shelves that no client has used for ServerConfig.Shelve.
func (s *Server) unshelveUnused() {
	now, old := s.port.now(), []shelfID(nil)
	for id, o := range s.shelves {
		if now.Sub(o.used) > s.cfg.Shelve {
			old = append(old, id)
		}
	}
	for _, l := range s.lives {
		old = slices.DeleteFunc(old, func(id shelfID) bool { return l.shelves[id] })
	}
	// a fixed order, for simulations
	slices.SortFunc(old, func(a, b shelfID) int {
		return cmp.Compare(s.shelves[a].owner.Index, s.shelves[b].owner.Index)
	})
	for _, id := range old {
		s.unshelve(id)
	}
}

// shelvedBytes returns the number of bytes of the places that hold pages of shelves.
func (s *Server) shelvedBytes() (n int) {
	for _, o := range s.shelves {
		n += s.store.used(o.owner)
	}
	return n
}

// forgetEvery returns how often forget looks.
func (s *Server) forgetEvery() time.Duration {
	if s.cfg.Shelve > 0 {
		return min(s.cfg.Keep, s.cfg.Shelve) / 4
	}
	return s.cfg.Keep / 4
}
