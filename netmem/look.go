package netmem

import (
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// look is which pages may have too few copies or too many, so that a repair does not look at all of them each time: a client may have
// millions. What copies a page should have depends on the page, which only calls change that have taken it, and on the servers.
type look struct {
	pages   map[uint64]struct{} // that calls have given back since they were looked at, or that were not settled then
	lost    map[uint64]struct{} // that nothing can be done for: no server has what their copies could be made of
	servers []standing          // as they were when all pages were looked at

	// The rounds of repair, and those pages for which no server had room in one. These are left alone for a while, longer each time, unless the
	// servers change or the client discards a page.
	round   int // how many have begun
	stuck   int // the last one that has given no page a copy, and has found the servers full; 0: none
	refused map[uint64]struct{}
	again   clock.Time // when they are tried again
	freed   bool       // since the last round began that has tried all pages, there may be room for them
	wait    time.Duration
}

// For how long a page that no server had room for is left alone: first, and at most.
const (
	fullLeast = 100 * time.Millisecond
	fullMost  = 10 * time.Second
)

// refuses reports whether no server had room for a page when it was tried last.
func (l *look) refuses(number uint64) bool {
	_, refused := l.refused[number]
	return refused
}

// refuse notes that no server has room for a page.
func (l *look) refuse(number uint64) {
	if l.refused == nil {
		l.refused = map[uint64]struct{}{}
	}
	l.refused[number] = struct{}{}
}

// begun notes that a round begins, and whether it tries all pages.
func (l *look) begun(all bool) {
	l.round++
	l.freed = l.freed && !all
}

// ended notes what a round has come to that has tried all pages.
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

// free notes that there may be room for what was refused.
func (l *look) free() { l.again, l.freed = 0, true }

// standing is what decides whether a server's copies count.
type standing struct {
	server   *server
	up, gone bool
	epoch    uint64
}

// note has the next look see a page.
func (l *look) note(number uint64) {
	if l.pages == nil {
		l.pages = map[uint64]struct{}{}
	}
	l.pages[number] = struct{}{}
	delete(l.lost, number)
}

// lose notes that nothing can be done for a page.
func (l *look) lose(number uint64) {
	if l.lost == nil {
		l.lost = map[uint64]struct{}{}
	}
	l.lost[number] = struct{}{}
}

// changed reports whether the servers are not as they were when it was called last.
func (l *look) changed(servers []*server) bool {
	now := make([]standing, len(servers))
	for i, s := range servers {
		now[i] = standing{s, s.up, s.gone, s.epoch}
	}
	same := slices.Equal(now, l.servers)
	l.servers = now
	return !same
}

// lookAnew has the next look see all pages if the servers have changed. The port's lock is held.
func (c *Client) lookAnew() {
	if c.look.changed(c.servers) {
		for number := range c.pages {
			c.look.note(number)
		}
		c.look.again = 0
	}
}

// lacking is how many pages have fewer copies than they should: all, where fewer servers are up than a page has copies. Of the others
// those were looked at since calls gave them back that are not in the look's lists, and had enough. The port's lock is held.
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

// unsettled are the pages that have too few copies, or too many, but for those that no server had room for lately.
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
		case p.busy.Load(): // its call gives it back
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
