package netmem

import "github.com/weftnet/weft/internal/clock"

// window is which of a client's requests are with a server. What all servers answer at once has to find buffers in the client's receive queue: of
// more requests than that the answers are lost, the requests are repeated, and with enough callers nothing else is done any more.
//
//	begin ──► with the server ──► its answer has come, or its call has ended
//	      └─► waits ──► a part of those before it are with the server no longer ─┘
type window struct {
	with  int     // how many are with the server
	waits []*call // in the order in which they were begun; those of calls that have ended, too
}

// leastWindow is how many requests a server may always have.
const leastWindow = 4

// refill is which part of its window a server has again at a time: the requests that waited for it leave together.
const refill = 4

// most is how many requests of this client each server may have at a time. The port's lock is held.
func (c *Client) most() int {
	if c.cfg.window > 0 {
		return c.cfg.window
	}
	return max(leastWindow, 32/max(len(c.servers), 1))
}

// send sends a call's request, or has it wait. One that asks whether the server is there does not wait, and keeps none waiting. The port's lock is
// held.
func (c *Client) send(k *call) {
	w := &k.to.window
	switch {
	case k.record.op == opOpen:
		c.transmit(k)
	case w.with >= c.most(), w.with > 0 && len(w.waits) > 0: // behind those
		k.waits = true
		c.stats.Waited++
		w.waits = append(w.waits, k)
	default:
		c.admit(k)
	}
}

// admit sends a request that is with its server from now on.
func (c *Client) admit(k *call) {
	k.to.window.with++
	k.with = true
	c.dispatch(k)
}

// leave notes that a call's request is no longer with its server, or never will be, and sends those that waited for that. The port's lock is held.
func (c *Client) leave(k *call) {
	w := &k.to.window
	k.waits = false
	if !k.with {
		return
	}
	k.with = false
	w.with--
	if len(w.waits) == 0 || w.with > c.most()-max(c.most()/refill, 1) {
		return
	}
	c.collect()
	defer c.depart()
	for len(w.waits) > 0 && w.with < c.most() {
		next := w.waits[0]
		w.waits[0] = nil
		w.waits = w.waits[1:]
		if next.waits {
			next.waits = false
			next.begun = c.port.now()
			c.admit(next)
		}
	}
}

// early reports whether none of some calls that have no answer can be late yet that are waited for since a time: their requests wait, or did until
// then. Those that wait for a server that is down wait in vain. The port's lock is held.
func early(calls []*call, since clock.Time) bool {
	for _, k := range calls {
		if !(k.waits && k.to.up || k.begun > since) {
			return false
		}
	}
	return true
}
