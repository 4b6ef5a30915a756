package netmem

import "github.com/weftnet/weft/internal/clock"

// window limits a client's requests to a server. Answers need buffers in the client's receive
// queue. If more answers arrive at once than there are buffers, they are lost and their requests
// retransmitted, and with enough callers the client would do nothing else.
//
//	begin ──► with the server ──► its answer has arrived, or its call has ended
//	      └─► waits ──► enough requests before it have left the server ─┘
type window struct {
	with  int     // requests with the server
	waits []*call // in the order of begin; some may have ended
}

// leastWindow is the number of requests that every server may have in flight.
const leastWindow = 4

// refill is the fraction of a window that is refilled at once, so that waiting requests are sent
// together.
const refill = 4

// most returns the largest number of requests of this client at each server. The port's lock is
// held.
func (c *Client) most() int {
	if c.cfg.window > 0 {
		return c.cfg.window
	}
	return max(leastWindow, 32/max(len(c.servers), 1))
}

// send sends a call's request or makes it wait. A request to open never waits, and no other waits
// for it. The port's lock is held.
func (c *Client) send(k *call) {
	w := &k.to.window
	switch {
	case k.record.op == opOpen:
		c.transmit(k)
	case w.with >= c.most(), w.with > 0 && len(w.waits) > 0: // not ahead of waiting requests
		k.waits = true
		c.stats.Waited++
		w.waits = append(w.waits, k)
	default:
		c.admit(k)
	}
}

// admit sends a request and counts it in the window of its server.
func (c *Client) admit(k *call) {
	k.to.window.with++
	k.with = true
	c.dispatch(k)
}

// leave records that a call's request is no longer with its server, and sends waiting requests. The
// port's lock is held.
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

// early reports whether none of the calls can be late yet: their requests still wait, or were sent
// after since. Requests that wait for a server that is down do not count. The port's lock is held.
func early(calls []*call, since clock.Time) bool {
	for _, k := range calls {
		if !(k.waits && k.to.up || k.begun > since) {
			return false
		}
	}
	return true
}
