package netmem

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/weftnet/weft/internal/mutate"
)

// page is what a client knows of one of its pages. One call at a time works on it.
//
// Only write moves version, when as many servers have the new one as there are copies. Until then all copies of the last one stay what
// a read may come back to, so that the page outlives a server as it did before.
type page struct {
	busy    atomic.Bool
	version uint64 // that was acknowledged; 0: none yet
	issued  uint64 // the highest that was sent: another than version if a write has failed
	crc     uint32 // of version
	anew    bool   // more copies need a version of their own: a server has been told to drop this one, or has damaged it
	stirred bool   // the call that has taken it may have changed something: a repair is to look at it
	copies  []copyOf

	// pending is what the page should have become by a write of shards that has failed: some of them have taken the place of the last
	// version's, of which there may be too few now. Of copies, it is what a read has found behind a write that has failed. A repair writes it, and
	// until then it is read here. nil: nothing.
	pending []byte
	keptSum uint32 // of the bytes that the shards of version are cut from: others may be added to these alone
}

// copyOf says that a server has a version of a page. It is forgotten when the server has another version, or leaves, or when the page is
// discarded, and for no other reason.
type copyOf struct {
	server  *server
	epoch   uint64
	version uint64
	shard   uint8
	doubted bool // what came from there last was not the page
}

// on finds the copy on a server.
func (p *page) on(s *server) *copyOf {
	for i := range p.copies {
		if p.copies[i].server == s {
			return &p.copies[i]
		}
	}
	return nil
}

func (p *page) forget(s *server) {
	p.copies = slices.DeleteFunc(p.copies, func(k copyOf) bool { return k.server == s })
}

// has notes that a server has a version of the page. Of one that has left meanwhile nothing is noted: it is not looked after any more.
func (p *page) has(s *server, epoch, version uint64, shard uint8) {
	now := copyOf{server: s, epoch: epoch, version: version, shard: shard}
	switch k := p.on(s); {
	case k != nil: // in its place: what a read has come from last is no reason to ask another server next
		p.stirred = p.stirred || *k != now
		*k = now
	case !s.left:
		p.stirred = true
		p.copies = append(p.copies, now)
	}
}

// doubt notes that a server did not answer with the page as it should have it.
func (p *page) doubt(s *server, d mutate.PageDefect) {
	if k := p.on(s); k != nil && d != mutate.PagesDoubtForgotten {
		k.doubted, p.anew, p.stirred = true, true, true
	}
}

// stands reports whether a server has a copy still, if it comes back should it be down.
func (c *Client) stands(k *copyOf) bool {
	return k.epoch == k.server.epoch || c.cfg.defect == mutate.PagesEpochIgnored
}

// isGood reports whether a copy of a page is on a server that is up, as it was acknowledged, or newer.
func (c *Client) isGood(p *page, k *copyOf) bool {
	return k.server.up && !k.doubted && c.stands(k) && c.suits(p, k)
}

// isDoubtful reports whether too few copies of a page are good, or are on servers that are down. The port's lock is held.
func (c *Client) isDoubtful(p *page) bool {
	return p.pending == nil && c.count(p, func(k *copyOf) bool { return c.stands(k) && c.suits(p, k) && !(k.server.up && k.doubted) }) < c.code.Data
}

// good adds the servers that have good copies to some. The port's lock is held.
func (c *Client) good(p *page, l []*server) []*server {
	for i := range p.copies {
		if k := &p.copies[i]; c.isGood(p, k) {
			l = append(l, k.server)
		}
	}
	return l
}

// kept is how many of them are to keep theirs, or how many different shards these are. The port's lock is held.
func (c *Client) kept(p *page) int {
	return c.count(p, func(k *copyOf) bool { return !k.server.gone && c.isGood(p, k) })
}

// maxDoubts is how often a read asks a server whose answers are not the page.
const maxDoubts = 3

// near is by how much longer than the nearest server one may take that counts as as near: a fourth. Servers differ by that from one answer to the next.
const near = 4

// nearest puts those servers first that answer soonest, as they usually do. Of those that are as near each page has an order of its own, in which
// they are: so their clients' reads are spread over all of them.
func nearest(l []*server) {
	if len(l) < 2 {
		return
	}
	least := slices.MinFunc(l, func(a, b *server) int { return cmp.Compare(a.usual, b.usual) }).usual
	slices.SortStableFunc(l, func(a, b *server) int {
		return cmp.Compare(max(a.usual, least+least/near), max(b.usual, least+least/near))
	})
}

// sources are the servers to read a page from, the nearest first: those that have it, or else those whose copies are doubted, as long as they were not asked
// too often. If there are none, a server that is down may have it. It is one look at the servers, which come and go: were it two, a server
// that comes back between them would be in neither. The port's lock is held.
func (c *Client) sources(p *page, asked map[*server]int) (l []*server, away bool) {
	l = slices.DeleteFunc(c.good(p, nil), func(s *server) bool { return asked[s] >= maxDoubts })
	if len(l) > 0 {
		nearest(l)
		return l, false
	}
	for i := range p.copies {
		k := &p.copies[i]
		switch {
		case !c.stands(k) || k.version < p.version:
		case !k.server.up:
			away = true
		case asked[k.server] < maxDoubts:
			l = append(l, k.server)
		}
	}
	return l, away
}
