package netmem

import "context"

// owed is a page that a server must drop, up to a version, but may not know of:
//
//	discarded ─► the server is told ─► it has answered
//	    │               └── it does not answer ──► owed ──► it is back: told again
//	    └── it is down ─────────────────────────► owed      another epoch: its pages are gone
//	a new page was not written to all servers ──► owed
//
// If the page was written again meanwhile, it has a later version and stays. Without this list, the
// old version would take room on the server for ever.
type owed struct{ page, version uint64 }

// drop tells a server that is up to drop a page. If the server does not answer, it owes the page.
func (c *Client) drop(ctx context.Context, s *server, page, version uint64) {
	k := c.ask(ctx, s, record{op: opDiscard, page: page, version: version}, nil)
	c.suspect(k)
	if k.answered() != nil {
		c.port.mu.Lock()
		s.owed = append(s.owed, owed{page, version})
		c.port.mu.Unlock()
	}
	c.end(k)
}

// oweAll makes all servers owe a page that is gone. The port's lock is held.
func (c *Client) oweAll(number uint64, p *page) {
	for _, k := range p.copies {
		if c.stands(&k) {
			k.server.owed = append(k.server.owed, owed{number, p.issued})
		}
	}
	p.copies = nil
}

// pay tells a server that is up to drop the pages that it owes. After that, the server may have
// room for pages that were refused.
func (c *Client) pay(ctx context.Context, s *server) {
	for {
		o, more := c.owes(ctx, s)
		if !more {
			return
		}
		c.drop(ctx, s, o.page, o.version)
	}
}

// owes returns the next page that a server must drop. There is none if the server is down, or if
// ctx or the client has ended.
func (c *Client) owes(ctx context.Context, s *server) (o owed, more bool) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	if !s.up || len(s.owed) == 0 || ctx.Err() != nil || c.port.err != nil {
		s.pays = false
		c.look.free()
		return o, false
	}
	o, s.owed = s.owed[0], s.owed[1:]
	return o, true
}
