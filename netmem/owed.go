package netmem

import "context"

// owed is a page that a server is to drop, up to a version, and may not know of yet:
//
//	discarded ─► the server is told ─► it has answered
//	    │               └── it does not answer ──► owed ──► it is back: told again
//	    └── it is down ─────────────────────────► owed      it has another epoch: it has nothing any more
//	a new page could not be written on all ─────► owed
//
// The page may have been written anew meanwhile: that has a later version. Without this the page would take room there that no page of the client's can have.
type owed struct{ page, version uint64 }

// drop has a server that is up drop a page, now or when it is back.
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

// oweAll has all servers drop a page that is no more. The port's lock is held.
func (c *Client) oweAll(number uint64, p *page) {
	for _, k := range p.copies {
		if c.stands(&k) {
			k.server.owed = append(k.server.owed, owed{number, p.issued})
		}
	}
	p.copies = nil
}

// pay has a server that is up drop what it is to. When it has, there may be room for pages that it had none for.
func (c *Client) pay(ctx context.Context, s *server) {
	for {
		o, more := c.owes(ctx, s)
		if !more {
			return
		}
		c.drop(ctx, s, o.page, o.version)
	}
}

// owes is what a server is to drop next; none if it is down, or ctx has ended, or the client.
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
