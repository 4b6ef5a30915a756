package netmem

import (
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// look is the set of pages that may have too few copies or too many. A repair does not look at all
// pages of a client, because there may be millions. The copies that a page should have depend on
// the page, which changes only while a call works on it, and on the servers.
type look struct {
	pages   map[uint64]struct{} // changed by calls since the last look, or unsettled in it
	lost    map[uint64]struct{} // pages that cannot be repaired: too few servers have their copies
	servers []standing          // as they were when all pages were looked at

	// These fields count the rounds of repair and hold the pages for which no server had room. Such
	// pages are retried after a growing pause, or sooner if the servers change or the client
	// discards a page.
	round   int // rounds begun
	stuck   int // last round that repaired nothing and found the servers full; 0: none
	refused map[uint64]struct{}
	again   clock.Time // when the refused pages are retried
	freed   bool       // room may have become free since the last round that tried all pages began
	wait    time.Duration
}

// The first and the longest pause before a refused page is retried.
const (
	fullLeast = 100 * time.Millisecond
	fullMost  = 10 * time.Second
)

// refuses reports whether the last attempt to repair a page found no room.
func (l *look) refuses(number uint64) bool {
	_, refused := l.refused[number]
	return refused
}

// refuse records that no server has room for a page.
func (l *look) refuse(number uint64) {
	if l.refused == nil {
		l.refused = map[uint64]struct{}{}
	}
	l.refused[number] = struct{}{}
}

// begun records that a round begins, and whether it tries all pages.
func (l *look) begun(all bool) {
	l.round++
	l.freed = l.freed && !all
}

// ended sets the next retry after a round that has tried all pages.
func (l *look) ended(now clock.Time, mended bool) {
	switch {
	case len(l.refused) == 0:
		l.wait = 0
	case mended:
		l.wait = fullLeast
	default:
		l.stuck = l.round
		l.wait = max(fullLeast, min(2*l.wait, fullMost))
	}
	if l.again = now.Add(l.wait); l.freed {
		l.again = 0
	}
}

// free records that there may be room for refused pages.
func (l *look) free() { l.again, l.freed = 0, true }

// standing is the state of a server that decides whether its copies count.
type standing struct {
	server   *server
	up, gone bool
	epoch    uint64
}

// note adds a page to the next look.
func (l *look) note(number uint64) {
	if l.pages == nil {
		l.pages = map[uint64]struct{}{}
	}
	l.pages[number] = struct{}{}
	delete(l.lost, number)
}

// lose records that a page cannot be repaired.
func (l *look) lose(number uint64) {
	if l.lost == nil {
		l.lost = map[uint64]struct{}{}
	}
	l.lost[number] = struct{}{}
}

// changed reports whether the servers have changed since its last call.
func (l *look) changed(servers []*server) bool {
	now := make([]standing, len(servers))
	for i, s := range servers {
		now[i] = standing{s, s.up, s.gone, s.epoch}
	}
	same := slices.Equal(now, l.servers)
	l.servers = now
	return !same
}

// lookAnew adds all pages to the next look if the servers have changed. The port's lock is held.
func (c *Client) lookAnew() {
	if c.look.changed(c.servers) {
		for number := range c.pages {
			c.look.note(number)
		}
		c.look.again = 0
	}
}

// lacking returns the number of pages that have too few copies. If fewer servers are up than a page
// has copies, all pages lack copies. Otherwise all pages that lack copies are in the lists of look.
// The port's lock is held.
func (c *Client) lacking() (n int) {
	if len(c.live()) < c.code.servers() {
		return len(c.pages)
	}
	c.lookAnew()
	for _, numbers := range []map[uint64]struct{}{c.look.pages, c.look.lost} {
		for number := range numbers {
			if p := c.pages[number]; p != nil && c.isShort(p) {
				n++
			}
		}
	}
	return n
}

// isShort reports whether a page has fewer copies than it should. The port's lock is held.
func (c *Client) isShort(p *page) bool { return p.version > 0 && c.kept(p) < c.code.servers() }

// unsettled returns the pages that have too few copies or too many, without the refused ones.
func (c *Client) unsettled() (l []uint64) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	c.lookAnew()
	if c.port.now() >= c.look.again {
		clear(c.look.refused)
	}
	live := len(c.live())
	for number := range c.look.pages {
		switch p := c.pages[number]; {
		case p == nil:
			delete(c.look.pages, number)
		case p.busy.Load(): // its call notes it again
		case c.look.refuses(number) && c.lacks(p, live):
		case c.lacks(p, live) || len(c.surplus(p)) > 0:
			l = append(l, number)
		default:
			delete(c.look.pages, number)
			if live >= c.code.servers() && c.isShort(p) {
				c.look.lose(number)
			}
		}
	}
	slices.Sort(l)
	return l
}
