package netmem

import "slices"

// look is which pages may have too few copies or too many, so that a repair does not look at all of them each time: a client may have
// millions. What copies a page should have depends on the page, which only calls change that have taken it, and on the servers.
type look struct {
	pages   map[uint64]struct{} // that calls have given back since they were looked at, or that were not settled then
	servers []standing          // as they were when all pages were looked at
}

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

// unsettled are the pages that have too few copies, or too many.
func (c *Client) unsettled() (l []uint64) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	if c.look.changed(c.servers) {
		for number := range c.pages {
			c.look.note(number)
		}
	}
	live := len(c.live())
	for number := range c.look.pages {
		switch p := c.pages[number]; {
		case p == nil, p.busy.Load(): // of a busy page its call takes note when it gives it back
			delete(c.look.pages, number)
		case c.lacks(p, live) || len(c.surplus(p)) > 0:
			l = append(l, number)
		default:
			delete(c.look.pages, number)
		}
	}
	slices.Sort(l)
	return l
}
