package daemon

import (
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// A caller is an operating-system process that has connections, or had some lately. Its requests
// A caller is an operating-system process that has connections, or had some lately. Its requests
// cost the daemon time and memory before any VNI is concerned, so all its connections share one
// allowance:
//
//	connections without a process   at most StrangersPerProcess
//	requests                        RequestsAtATime; RequestBurst in a row, and on average
//	                                RequestsPerSecond
//	each time it is thrown out      as much as ThrownOutCost requests, before it may attach again
//
// Requests beyond the allowance wait. The requests of other callers do not.
type caller struct {
	strangers int           // connections that have not attached
	open      int           // connections
	turn      chan struct{} // holds a token for each request that is being served
	allowance float64       // requests; under d.mu
	counted   time.Time     // when the allowance was computed last
}

// client is one connection.
type client struct {
	conn    *ctl.Client
	caller  *caller
	session *session  // nil: a tool, or not attached yet
	heard   time.Time // when it made its last request
}

// callerOf finds the caller of a connection. With the lock held.
func (h *door) callerOf(pid int) *caller {
	if c := h.callers[pid]; c != nil {
		return c
	}
	if len(h.callers) >= limits.Callers {
		h.forgetCallers()
	}
	c := &caller{turn: make(chan struct{}, limits.RequestsAtATime), allowance: limits.RequestBurst, counted: time.Now()}
	h.callers[pid] = c
	return c
}

// forgetCallers drops the callers that have no connections and owe nothing. If there are still
// too many, it drops all callers without connections.
func (h *door) forgetCallers() {
	for _, all := range []bool{false, true} {
		for pid, c := range h.callers {
			if c.earn(); c.open == 0 && (all || c.allowance >= limits.RequestBurst) {
				delete(h.callers, pid)
			}
		}
		if len(h.callers) < limits.Callers {
			return
		}
	}
}

// earn updates the allowance. With the lock held.
func (c *caller) earn() {
	now := time.Now()
	c.allowance = min(limits.RequestBurst, c.allowance+now.Sub(c.counted).Seconds()*limits.RequestsPerSecond)
	c.counted = now
}

// enter admits a connection. If strangers have as many connections as they may have together,
// enter closes the one that has been silent longest. A process that only holds connections is
// silent.
func (h *door) enter(conn *ctl.Client) (*client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil, ctl.ErrNICGone
	}
	who := h.callerOf(conn.Peer.PID)
	if who.strangers >= limits.StrangersPerProcess {
		return nil, fmt.Errorf("%w: process %d has %d connections that have not attached; at most %d",
			ctl.ErrRefused, conn.Peer.PID,
			who.strangers, limits.StrangersPerProcess)
	}
	if h.strangers >= limits.Strangers {
		h.dismissOldest()
	}
	c := &client{conn: conn, caller: who, heard: time.Now()}
	h.clients[c] = true
	who.strangers++
	who.open++
	h.strangers++
	h.served.Add(1)
	return c, nil
}

// dismissOldest ends the connection of the stranger that has been silent longest. With the lock
// held.
func (h *door) dismissOldest() {
	var oldest *client
	for c := range h.clients {
		if c.session == nil && (oldest == nil || c.heard.Before(oldest.heard)) {
			oldest = c
		}
	}
	if oldest != nil {
		h.leaveStrangers(oldest)
		_ = oldest.conn.Close()
	}
}

// leaveStrangers counts a connection as a stranger's no longer: it has attached, or it ends. With
// the lock held.
func (h *door) leaveStrangers(c *client) {
	if c.heard.IsZero() {
		return
	}
	c.heard = time.Time{}
	c.caller.strangers--
	h.strangers--
}

// attached notes that a connection now belongs to a process.
func (h *door) attached(c *client, s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.session = s
	h.leaveStrangers(c)
}

// exit forgets a connection.
func (h *door) exit(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, c)
	h.leaveStrangers(c)
	c.caller.open--
}

// begin waits until a request of this connection may be served. end makes room for the caller's
// next request.
func (h *door) begin(c *client) {
	c.caller.turn <- struct{}{}
	if wait := h.spend(c, 1); wait > 0 {
		select {
		case <-time.After(wait):
		case <-h.ctx.Done():
		}
	}
}

func (c *client) end() { <-c.caller.turn }

// spend charges requests to a caller's allowance, and returns how long the caller must wait.
func (h *door) spend(c *client, requests float64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !c.heard.IsZero() {
		c.heard = time.Now()
	}
	w := c.caller
	w.earn()
	w.allowance = max(w.allowance-requests, -limits.MostOwed)
	if w.allowance >= 0 {
		return 0
	}
	return time.Duration(-w.allowance / limits.RequestsPerSecond * float64(time.Second))
}
