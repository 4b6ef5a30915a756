package nbd

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/weftnet/weft/internal/newcomers"
)

// seat is the state of a client at its server:
//
//	accepted ──► newcomer ──► user, silent ──► user ──► gone
//	               │            └──► gives way to another user
//	               └──► gives way to another newcomer, or its handshake takes too long
//
// A user is silent until its first request. Clients may open connections long before they use
// them, so a silent user has no deadline. But if all places are taken, a silent user gives way to
// a client that finishes its handshake.
type seat struct {
	s        *Server
	c        net.Conn
	newcomer *newcomers.Newcomer
	silent   *newcomers.Newcomer // nil: not a user
	spoke    bool                // guarded by the turn of the connection
}

var (
	errGaveWay = errors.New("nbd: an idle client gave way to another")
	errNoRoom  = errors.New("nbd: all places for clients are taken; try again later, or raise --clients")
)

// enter adds a client to the newcomers.
func (s *Server) enter(c net.Conn) seat {
	e := seat{s: s, c: c}
	e.newcomer = s.newcomers.Enter(newcomers.SourceOf(c.RemoteAddr()), func() { c.Close() })
	return e
}

// use makes a newcomer a user of the device. It returns false if all places are taken and no
// silent user gives way.
func (s *Server) use(n *conn) bool {
	e := &n.seat
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users >= s.cfg.Clients && !s.silent.GiveWay() {
		return false
	}
	s.users++
	e.silent = s.silent.Enter(newcomers.SourceOf(e.c.RemoteAddr()), func() {
		s.users-- // GiveWay is called under the lock
		e.c.Close()
	})
	return true
}

// speaks notes a request. It returns false if the client gave way before.
func (e *seat) speaks() bool {
	if e.spoke || e.silent == nil {
		return true
	}
	e.spoke = true
	return e.silent.Leave()
}

// settle removes the client from the newcomers. It returns false if the client gave way.
func (e *seat) settle() bool { return e.newcomer.Leave() }

// leave releases the seat.
func (e *seat) leave() {
	e.newcomer.Leave()
	if e.silent == nil {
		return
	}
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if e.silent.Leave() {
		e.s.users--
	}
}

// gaveWay reports whether the client gave way to others.
func (e *seat) gaveWay() bool {
	return e.newcomer.GaveWay() || e.silent != nil && e.silent.GaveWay()
}

// Counts counts the clients of a server.
type Counts struct {
	Accepted int64 `json:"accepted"` // connections
	GaveWay  int64 `json:"gave_way"` // idle clients that gave way to others
	// Full counts clients that finished their handshake while all places were taken.
	Full        int64 `json:"full"`
	Failed      int64 `json:"failed"`       // other handshakes that failed
	TLSRequired int64 `json:"tls_required"` // options that were refused before STARTTLS
	// TLSFailed counts the failed TLS handshakes among Failed, such as those without a
	// certificate.
	TLSFailed int64 `json:"tls_failed"`
}

type counts struct{ accepted, gaveWay, full, failed, tlsRequired, tlsFailed atomic.Int64 }

// Counts returns the counts.
func (s *Server) Counts() Counts {
	c := &s.counts
	return Counts{c.accepted.Load(), c.gaveWay.Load(), c.full.Load(), c.failed.Load(), c.tlsRequired.Load(),
		c.tlsFailed.Load()}
}
