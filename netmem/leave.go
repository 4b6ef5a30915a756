package netmem

import (
	"context"
	"slices"
	"time"
)

// When a client ends or stops using a server, it tells the server, which then drops the client's
// pages:
//
//	Close ────────► opLeave to all servers that are up ─► answers, or leavingFor ─► port closes
//	RemoveServer ─► opLeave to one server, in a goroutine
//
// The request contains the epoch of the life that it ends, so a late or duplicate request ends no
// other life. If a client uses a server again, it begins a new life there. The new life has a
// larger number than the life that has ended.

// leavingFor is the longest time for which Close waits for servers. If a server does not receive
// the request, it notices the end in one of the other ways.
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
		// This is not end, because end waits. The port closes next and frees all calls.
		delete(c.calls, k.record.request)
		c.leave(k)
		c.port.mu.Unlock()
	}
}

// leaveServer ends the client's life at a server that the client no longer uses, in a goroutine. If
// the client has added the server again meanwhile, the life continues. The port's lock is held.
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

// begunAt returns the time at which the client's life at a server began. The port's lock is held.
func (c *Client) begunAt(s *server) uint64 {
	if t, ok := c.anew[s.Name]; ok {
		return t
	}
	return c.begun
}
