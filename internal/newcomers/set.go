// Package newcomers bounds what a server spends on clients that it does not know yet.
//
//	accept ──► Set ──► the handshake ends ──► the server's own bound
//	            └─ a full Set: the oldest newcomer of the largest source gives way
//
// So a silent client that opens connections displaces its own connections first. A Bucket bounds
// the rate of expensive work for a source. Lines bounds the log lines that newcomers cause.
package newcomers

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// Source is the origin of a client. Clients of one Source share the places of a Set.
type Source struct{ prefix netip.Prefix }

// loopback is the Source of all clients of this host: each can use any address of 127.0.0.0/8.
var loopback = Source{netip.MustParsePrefix("127.0.0.0/8")}

// SourceOf returns the Source of a remote address: an IPv4 address, an IPv6 network of 64 bits, or
// this host. Clients without an IP address have one Source together.
func SourceOf(remote net.Addr) Source {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return Source{}
	}
	a := tcp.AddrPort().Addr().Unmap().WithZone("")
	switch {
	case !a.IsValid():
		return Source{}
	case a.IsLoopback():
		return loopback
	case a.Is4():
		return Source{netip.PrefixFrom(a, 32)}
	}
	return Source{netip.PrefixFrom(a, 64).Masked()}
}

// Set holds the clients that a server does not know yet.
type Set struct {
	most int

	mu      sync.Mutex
	all     list.List // of *Newcomer, the oldest first
	sources map[Source]int
}

// New returns a Set of at most most clients.
func New(most int) *Set { return &Set{most: most, sources: make(map[Source]int)} }

// Newcomer is a client of a Set.
type Newcomer struct {
	set     *Set
	source  Source
	place   *list.Element // nil after it left or gave way
	gaveWay bool
	end     func()
}

// Enter adds a client. If the Set is full, another client gives way: Enter calls its end, in this
// goroutine.
func (s *Set) Enter(from Source, end func()) *Newcomer {
	n := &Newcomer{set: s, source: from, end: end}
	s.mu.Lock()
	var victim *Newcomer
	if s.all.Len() >= s.most {
		victim = s.oust()
	}
	n.place = s.all.PushBack(n)
	s.sources[from]++
	s.mu.Unlock()
	if victim != nil {
		victim.end()
	}
	return n
}

// GiveWay makes a client give way, as a full Set does. It reports whether there was one.
func (s *Set) GiveWay() bool {
	s.mu.Lock()
	victim := s.oust()
	s.mu.Unlock()
	if victim != nil {
		victim.end()
	}
	return victim != nil
}

// Len returns how many clients there are.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Len()
}

// oust removes the oldest client of the source that has the most clients: a source that floods the
// Set does not oust the clients of others. It returns nil if there is none.
func (s *Set) oust() *Newcomer {
	most := 0
	for _, n := range s.sources {
		most = max(most, n)
	}
	for e := s.all.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*Newcomer); s.sources[n.source] == most {
			s.remove(n)
			n.gaveWay = true
			return n
		}
	}
	return nil
}

func (s *Set) remove(n *Newcomer) {
	s.all.Remove(n.place)
	n.place = nil
	if s.sources[n.source]--; s.sources[n.source] == 0 {
		delete(s.sources, n.source)
	}
}

// Leave removes a client whose handshake succeeded or failed. It reports false if the client gave
// way before. A second call changes nothing.
func (n *Newcomer) Leave() bool {
	n.set.mu.Lock()
	defer n.set.mu.Unlock()
	if n.place != nil {
		n.set.remove(n)
	}
	return !n.gaveWay
}

// GaveWay reports whether the client gave way to another.
func (n *Newcomer) GaveWay() bool {
	n.set.mu.Lock()
	defer n.set.mu.Unlock()
	return n.gaveWay
}
