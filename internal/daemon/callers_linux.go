package daemon

import (
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// A caller is an operating-system process that has connections, or had some lately. What it asks for costs the daemon time
// and memory before any VNI is concerned, so all its connections together have one allowance:
//
//	connections that have not attached   at most StrangersPerProcess
//	requests                             RequestsAtATime; RequestBurst in a row, RequestsPerSecond in the long run
//	each time that it is thrown out      as much as ThrownOutCost requests, before it may attach again
//
// Requests beyond that wait; those of other callers do not.
type caller struct {
	strangers int           // connections that have not attached
	open      int           // connections
	turn      chan struct{} // holds a token for each request that is being served
	allowance float64       // requests; under d.mu
	counted   time.Time     // when it was reckoned last
}

// client is one connection.
type client struct {
	conn    *ctl.Client
	caller  *caller
	session *session  // nil: a tool, or not attached yet
	heard   time.Time // when it asked for something last
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

// forgetCallers drops the callers without connections that owe nothing, and all without connections if these are too many.
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

// earn reckons the allowance. With the lock held.
func (c *caller) earn() {
	now := time.Now()
	c.allowance = min(limits.RequestBurst, c.allowance+now.Sub(c.counted).Seconds()*limits.RequestsPerSecond)
	c.counted = now
}

// enter takes a connection in. Where strangers have as many as they may have together, the one that has been silent the
// longest is closed; a process that only holds connections is silent.
func (h *door) enter(conn *ctl.Client) (*client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil, ctl.ErrNICGone
	}
	who := h.callerOf(conn.Peer.PID)
	if who.strangers >= limits.StrangersPerProcess {
		return nil, fmt.Errorf("%w: process %d has %d connections that have not attached; at most %d", ctl.ErrRefused, conn.Peer.PID,
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

// dismissOldest ends the connection of the stranger that has been silent the longest. With the lock held.
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

// leaveStrangers counts a connection as none of those any more: it has attached, or ends. With the lock held.
func (h *door) leaveStrangers(c *client) {
	if c.heard.IsZero() {
		return
	}
	c.heard = time.Time{}
	c.caller.strangers--
	h.strangers--
}

// attached notes that a connection is a process from now on.
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

// begin waits until a request of this connection may be served, and end lets the caller's next one be.
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

// spend takes requests off a caller's allowance, and returns how long it has to wait for that.
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
