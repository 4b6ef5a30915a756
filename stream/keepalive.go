package stream

import (
	"errors"
	"syscall"
	"time"

	"github.com/weftnet/weft"
)

// A stream asks a silent peer for its state. A peer that is stopped does not answer, and neither
// does one that is gone. So the stream then questions the peer's NIC, which knows whether the
// process lives:
//
//	silence ──► ping ──► a message of the peer            the peer is well
//	 KeepAlive    └────► none ──► question to its NIC ──► it lives: ping again after KeepAlive,
//	                                       │              up to Patience
//	                                       └────────────► it ended, or no answer: the stream fails
//
// A waiting stream costs its buffers and one question in each KeepAlive for all streams to one
// process. A NIC that vouches for a dead process can cost the stream its Patience, but no more.

// keepEvery is the period of keepAlive.
const keepEvery = time.Second

// answersWithin limits the wait for the answer of a NIC. A NIC that is silent for
// Config.UnreachableAfter ends the wait earlier.
const answersWithin = DefaultKeepAlive

// keep runs keepAlive of each stream once a second, and questions NICs for the streams that want
// it.
func (h *host) keep() {
	for last := h.p.Runtime().Now(); h.p.Runtime().Sleep(h.ctx, keepEvery) == nil; {
		h.mu.Lock()
		now, conns := h.p.Runtime().Now(), make([]*Conn, 0, len(h.conns))
		for _, c := range h.conns {
			conns = append(conns, c)
		}
		h.mu.Unlock()
		// This process may have been stopped itself. It cannot have heard its peers then.
		slept := now.Sub(last) - keepEvery
		last = now
		for _, c := range conns {
			if slept >= keepEvery {
				c.overslept(slept)
			}
			if peer, doubtful := c.keepAlive(now); doubtful {
				h.question(peer)
			}
		}
	}
}

// question asks the NIC of a process whether the process lives, and tells all streams to that
// process. One question to a process is in flight at once.
func (h *host) question(peer weft.Address) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.questions[peer] {
		return
	}
	h.questions[peer] = true
	h.p.Runtime().Go(func() {
		ctx, cancel := h.p.Runtime().WithTimeout(h.ctx, answersWithin)
		defer cancel()
		h.answered(peer, h.p.PeerAt(peer).Alive(ctx))
	})
}

// answered tells the streams to a process what its NIC answered.
func (h *host) answered(peer weft.Address, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.questions, peer)
	now := h.p.Runtime().Now()
	for _, c := range h.conns {
		switch {
		case err == nil:
			c.vouchedFor(peer)
		case errors.Is(err, weft.ErrProcessGone), errors.Is(err, weft.ErrStaleGeneration):
			c.doubt(peer, now)
		}
	}
}

// overslept moves the times of the stream by the time for which this process did not run.
func (c *Conn) overslept(slept time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range []*time.Time{&c.heard, &c.learned, &c.asked, &c.doubted, &c.closed} {
		if !at.IsZero() {
			*at = at.Add(slept)
		}
	}
}

// vouchedFor notes that a NIC said that a process lives.
func (c *Conn) vouchedFor(peer weft.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vouched = c.vouched || c.questioned && c.peer == peer
}

// doubt asks the peer whether it ended, after an event about the address ended. The event is about
// a NIC if the address has no slot, and otherwise about a process. The event proves nothing. Bytes
// of the peer may arrive after it, and the event of a NIC may arrive after the first messages of
// the NIC's next life.
func (c *Conn) doubt(ended weft.Address, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateOpen && (c.peer == ended || ended == weft.Address{NIC: c.peer.NIC}) {
		c.doubted = now
		c.oweLocked(dutyPing)
	}
}

// ceased reports whether a doubted peer has been silent long enough. The caller holds mu.
func (c *Conn) ceased(now time.Time) bool {
	return !c.doubted.IsZero() && now.Sub(c.doubted) >= keepEvery && now.Sub(c.heard) >= keepEvery
}

// keepAlive asks the peer for its state if none arrived for a while. If no message at all arrives
// after that, and the peer's NIC does not vouch for the peer, it fails the stream. Received bytes
// do not replace a state: a lost message may have reported room or an end, and the stream would
// wait for it forever. If doubtful is true, the caller must question the NIC of peer.
func (c *Conn) keepAlive(now time.Time) (peer weft.Address, doubtful bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stirred {
		c.stirred, c.heard = false, now
	}
	if c.stated {
		c.stated, c.learned, c.asked = false, now, time.Time{}
	}
	if c.lingering() && now.Sub(c.closed) >= lingers {
		c.failLocked(because(syscall.ETIMEDOUT, errSilence), true)
	}
	c.trim()
	after := c.cfg.keepAlive
	switch {
	case c.state == stateOpen && c.ceased(now):
		c.failLocked(c.unlessEnded(because(syscall.ECONNRESET, errEnded)), true)
	case c.state != stateOpen || after < 0 || now.Sub(c.learned) < after:
	case !c.asked.IsZero() && now.Sub(c.asked) < after:
	case !c.asked.IsZero() && now.Sub(c.heard) >= after && !c.excused(now):
		c.failLocked(c.unlessEnded(because(syscall.ETIMEDOUT, errSilence)), true)
	default:
		c.asked, c.questioned, c.vouched = now, false, false
		c.oweLocked(dutyPing)
	}
	if !c.mayQuestion(now) {
		return weft.Address{}, false
	}
	c.questioned = true
	return c.peer, true
}

// excused reports whether the peer may be silent: its NIC vouched for it since the last ping, and
// Patience has not passed. The caller holds mu.
func (c *Conn) excused(now time.Time) bool { return c.vouched && now.Sub(c.heard) < c.cfg.patience }

// mayQuestion reports whether the peer's NIC must be questioned: a ping has no answer. A peer that
// is well answers within keepEvery, so its NIC is not questioned unless KeepAlive leaves too little
// time. The caller holds mu.
func (c *Conn) mayQuestion(now time.Time) bool {
	late := keepEvery
	if c.cfg.keepAlive <= 2*keepEvery {
		late = 0
	}
	return c.state == stateOpen && !c.asked.IsZero() && !c.questioned && c.cfg.patience > 0 && now.Sub(c.asked) >= late
}
