package netmem

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/weftnet/weft/internal/mutate"
)

// page is what a client knows about one of its pages. Only one call at a time works on a page.
//
// Only a successful write changes version: it does so when enough servers have the new version.
// Until then the copies of the last version stay readable, so the page survives the loss of servers
// as before.
type page struct {
	busy    atomic.Bool
	version uint64 // last acknowledged version; 0: none yet
	issued  uint64 // highest version sent; differs from version after a failed write
	crc     uint32 // of version
	// A new copy needs a new version: a server was told to drop this one, or has damaged it.
	anew    bool
	stirred bool // the call in progress may have changed something, so a repair must look
	copies  []copyOf

	// pending is the content that a repair is to write, and that reads return until then. After a
	// failed write of shards it is the new content: new shards have replaced some old ones, and too
	// few of either version may be left. If a page has copies, it is the content that a read found
	// after a failed write. nil: none.
	pending []byte
	// keptSum is the checksum of the bytes that the shards of version are cut from. New shards must
	// match it.
	keptSum uint32
}

// copyOf records that a server has a version of a page. It is removed only when the server has
// another version, when the server leaves, or when the page is discarded.
type copyOf struct {
	server  *server
	epoch   uint64
	version uint64
	shard   uint8
	doubted bool // the last answer of the server was not the page
}

// on returns the copy on a server; nil if there is none.
func (p *page) on(s *server) *copyOf {
	for i := range p.copies {
		if p.copies[i].server == s {
			return &p.copies[i]
		}
	}
	return nil
}

// forget removes the copy on a server.
func (p *page) forget(s *server) {
	p.copies = slices.DeleteFunc(p.copies, func(k copyOf) bool { return k.server == s })
}

// has records that a server has a version of the page. It ignores a server that has left meanwhile,
// because the client no longer watches that server.
func (p *page) has(s *server, epoch, version uint64, shard uint8) {
	now := copyOf{server: s, epoch: epoch, version: version, shard: shard}
	switch k := p.on(s); {
	case k != nil: // in place: a read must not move its server to the end
		p.stirred = p.stirred || *k != now
		*k = now
	case !s.left:
		p.stirred = true
		p.copies = append(p.copies, now)
	}
}

// doubt records that a server answered with something other than the page that it should have.
func (p *page) doubt(s *server, d mutate.PageDefect) {
	if k := p.on(s); k != nil && d != mutate.PagesDoubtForgotten {
		k.doubted, p.anew, p.stirred = true, true, true
	}
}

// stands reports whether a server still has a copy. A server that is down counts if it may come
// back with the copy.
func (c *Client) stands(k *copyOf) bool {
	return k.epoch == k.server.epoch || c.cfg.defect == mutate.PagesEpochIgnored
}

// isGood reports whether a copy is on a server that is up, with the acknowledged version or a newer
// one.
func (c *Client) isGood(p *page, k *copyOf) bool {
	return k.server.up && !k.doubted && c.stands(k) && c.suits(p, k)
}

// isDoubtful reports whether too few copies of a page are good or on servers that are down. The
// port's lock is held.
func (c *Client) isDoubtful(p *page) bool {
	return p.pending == nil && c.count(p, func(k *copyOf) bool {
		return c.stands(k) && c.suits(p, k) && !(k.server.up && k.doubted)
	}) < c.code.Data
}

// good appends the servers that have good copies to l. The port's lock is held.
func (c *Client) good(p *page, l []*server) []*server {
	for i := range p.copies {
		if k := &p.copies[i]; c.isGood(p, k) {
			l = append(l, k.server)
		}
	}
	return l
}

// kept returns the number of good copies on servers that are not being removed. If several of these
// copies are the same shard, they count once. The port's lock is held.
func (c *Client) kept(p *page) int {
	return c.count(p, func(k *copyOf) bool { return !k.server.gone && c.isGood(p, k) })
}

// maxDoubts is the number of times that a read asks a server whose answers are not the page.
const maxDoubts = 3

// near is the fraction of the fastest answer time by which another server may be slower and still
// count as equally near: one fourth. Answer times of one server vary by that much.
const near = 4

// nearest sorts the servers with the shortest usual answer times to the front. Equally near servers
// stay in the page's own order, which spreads the reads of different pages over them.
func nearest(l []*server) {
	if len(l) < 2 {
		return
	}
	least := slices.MinFunc(l, func(a, b *server) int { return cmp.Compare(a.usual, b.usual) }).usual
	slices.SortStableFunc(l, func(a, b *server) int {
		return cmp.Compare(max(a.usual, least+least/near), max(b.usual, least+least/near))
	})
}

// sources returns the servers to read a page from, the nearest first. Those are the servers with
// good copies. If there are none, they are the servers whose copies are doubted and that were not
// asked too often. away reports whether a server that is down may have the page.
//
// sources looks at all servers at once. With two looks, a server that comes back between them would
// be in neither. The port's lock is held.
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
