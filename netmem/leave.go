package netmem

import (
	"context"
	"slices"
	"time"
)

// A client that ends, or uses a server no more, says so to the server, which has no use for its pages then:
//
//	Close ────────► opLeave to all servers that are up ─► their answers, or leavingFor ─► the port closes
//	RemoveServer ─► opLeave to the one, beside all else
//
// The request bears the epoch of the life that it ends. So one that comes late, or twice, ends no other: a client that uses a server again begins anew there,
// with a larger number than the server has been told has ended.

// leavingFor is for how long Close waits for servers' answers. What a server has not heard by then it finds out as that of any client that has ended.
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
		delete(c.calls, k.record.request) // not end: the port closes next, and what the driver has of a call goes with it
		c.leave(k)
		c.port.mu.Unlock()
	}
}

// leaveServer ends the client's life at a server that it uses no more, beside what the caller does. If the server was let join anew meanwhile, the life is
// needed still. The port's lock is held.
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

// begunAt is when the client's life at a server began. The port's lock is held.
func (c *Client) begunAt(s *server) uint64 {
	if t, ok := c.anew[s.Name]; ok {
		return t
	}
	return c.begun
}
