package rel

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// channel is one of an endpoint's two ways to its peer (USNIC-12, USNIC-13). The command channel
// takes tiny messages, control and ACKs, in smaller frames, and is always served first
// (USNIC-14, USNIC-15). The data channel takes the rest, and every retransmission (USNIC-21).
//
// Its credits are bytes of the capacity that the peer announced. A frame takes credits when it
// is posted and returns them when it is acknowledged or given up for lost. Queued segments count
// already, so that the whole queue may be sent.
type channel struct {
	mtu      int         // largest frame that gets through, in bytes
	most     int         // largest frame that both NICs take, in bytes
	queue    segmentList // to send; its segments have no sequence number yet (USNIC-17)
	open     *segment    // the last one queued that takes more records; nil if there is none
	queued   int         // bytes of capacity that the queue will take
	inFlight int         // bytes of capacity that posted segments take
}

// spent returns the capacity in use and promised, in bytes.
func (c *channel) spent() int { return c.queued + c.inFlight }

// enqueue appends a segment and accounts for it.
func (c *channel) enqueue(g *segment, bytes int) {
	g.cost = segmentBytes + bytes
	c.queued += g.costs()
	c.queue.push(g)
}

// dequeue takes a segment off the queue.
func (c *channel) dequeue(g *segment) {
	if c.open == g {
		c.open = nil
	}
	c.queued -= g.costs()
	c.queue.remove(g)
}

// requeue puts a segment back to the front of the queue.
func (c *channel) requeue(g *segment) {
	c.queued += g.costs()
	c.queue.pushFront(g)
}

// credits reports whether the channel of s may take on a segment of n bytes: together the two
// channels stay within the share of the peer's capacity that the congestion state allows, and
// each leaves the other its share. One segment may always be in flight, or a tiny capacity would
// stop everything.
func (e *Endpoint) credits(s wire.Space, n int) bool {
	mine, left := e.creditsLeft(s)
	return mine == 0 || segmentBytes+n <= left
}

// creditsLeft returns the bytes of capacity that the channel of s has spent, and how many more
// it may spend.
func (e *Endpoint) creditsLeft(s wire.Space) (mine, left int) {
	mine, other := e.channels[s].spent(), e.channels[1-s].spent()
	all := e.congestion.window
	return mine, all - max(other, all/limits.ChannelShare) - mine
}

// readyFor returns how many segments of n record bytes each s takes now, at most most: none
// unless ready.
func (e *Endpoint) readyFor(s wire.Space, n, most int) int {
	if !e.ready(s, n) {
		return 0
	}
	_, left := e.creditsLeft(s)
	most = min(most, e.live.send[s].room()-e.channels[s].queue.n, left/(segmentBytes+n))
	return max(most, 1)
}

// ready reports whether s takes another segment of n record bytes now: the session is open, the
// window has room, and there are credits (USNIC-19).
func (e *Endpoint) ready(s wire.Space, n int) bool {
	return e.live.send[s].room() > e.channels[s].queue.n && e.credits(s, n)
}

// refuse notes that ready was false for a request of the owner, and counts the reason.
func (e *Endpoint) refuse(s wire.Space) {
	e.blocked = true
	if e.live.send[s].room() <= e.channels[s].queue.n {
		e.m.stats.WindowFull++
	} else {
		e.m.stats.CreditsFull++
	}
}

// toSend puts e on the module's list of endpoints with something to send (USNIC-18, USNIC-32:
// check_rts).
func (e *Endpoint) toSend() {
	if !e.listed {
		e.listed = true
		e.m.sending = append(e.m.sending, e)
	}
}
