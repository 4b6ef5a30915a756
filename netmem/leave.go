package netmem

import (
	"context"
	"slices"
	"time"
)

// A client that ends, or stops using a server, tells the server, which then drops its pages:
//
//	Close ────────► opLeave to all servers that are up ─► answers, or leavingFor ─► the port closes
//	RemoveServer ─► opLeave to one server, in a goroutine
//
// The request bears the epoch of the life that it ends, so a late or duplicate one ends no other
// life. A client that uses a server again begins a new life there, with a larger number than the
// one that ended.

// leavingFor is the longest time for which Close waits for servers. A server that misses the
// request learns of the end as for any other client.
const leavingFor = 250 * time.Millisecond

// leaveAll ends the client's lives at the servers that are up.
func (c *Client) leaveAll() {
	ctx, cancel := c.p.Runtime().WithTimeout(context.Background(), min(c.cfg.Dead, leavingFor))
	defer cancel()
	var calls []*call
	c.port.mu.Lock()
	for _, s := range c.servers {
		if s.up && c.port.err == nil {
			calls = append(calls, c.begin(s, record{op: opLeave}, nil))
		}
	}
	c.port.mu.Unlock()
	for _, k := range calls {
		c.finish(ctx, k)
		c.port.mu.Lock()
		delete(c.calls, k.record.request) // not end, which waits: the port closes next and frees all
		c.leave(k)
		c.port.mu.Unlock()
	}
}

// leaveServer ends the client's life at a server that it no longer uses, in a goroutine. If the
// server was added again meanwhile, the life goes on. The port's lock is held.
func (c *Client) leaveServer(s *server) {
	if slices.ContainsFunc(c.servers, func(o *server) bool { return o != s && o.Name == s.Name }) {
		return
	}
	c.anew[s.Name] = max(moment(c.p.Runtime().Now()), c.begunAt(s)+1)
	if !s.up {
		return
	}
	k := c.begin(s, record{op: opLeave}, nil)
	c.p.Runtime().Go(func() {
		ctx, cancel := c.p.Runtime().WithTimeout(c.port.ctx, c.cfg.Dead)
		defer cancel()
		c.finish(ctx, k)
		c.end(k)
	})
}

// begunAt returns when the client's life at a server began. The port's lock is held.
func (c *Client) begunAt(s *server) uint64 {
	if t, ok := c.anew[s.Name]; ok {
		return t
	}
	return c.begun
}
