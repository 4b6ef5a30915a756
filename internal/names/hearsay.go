package names

import (
	"net/netip"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// A peer tells of further NICs, so that one node is enough to join a fabric. A peer may also lie:
// it may name addresses of bystanders, or NICs that do not exist. So a record of a node is a
// rumour until the NIC answers:
//
//	told ── teller's credit ──► waiting ── free call, pause over ──► called ── answers ──► a peer
//	  │                            ▲                                   │    (credit comes back)
//	  │ no credit, nothing vouches └──── no answer: a longer pause ────┤
//	  ▼                                                                ▼ the last call unanswered
//	refused                                                        forgotten (the credit is spent)
//
// A rumour has a place in the peer table only during a call. The bounds are in package limits:
// rumours of one teller, calls of one NIC and for one teller, calls for one rumour, and calls to
// a host from which no NIC has ever answered.

// rumour is a NIC that a peer has told of.
type rumour struct {
	id     uint64
	addr   netip.AddrPort
	teller *Peer
	calls  int        // ended without an answer
	call   *Peer      // the current call; nil: none
	at     clock.Time // when the call ends, or the next one begins
	// first is for a rumour from a first table: claims wait until then for the first call. 0:
	// they do not wait.
	first clock.Time
}

// hearsay holds all rumours, and the hosts that have not answered.
type hearsay struct {
	rumours []*rumour // in the order of arrival
	calls   int       // in progress
	silent  map[netip.Addr]*silence
}

// silence is a host at which no NIC has answered yet.
type silence struct {
	calls int
	until clock.Time // when the calls are forgotten
}

// callTime returns the length of a call: two Hellos, and the time until the third would be sent.
func (t *Table) callTime() time.Duration {
	every := min(limits.HelloEvery, t.cfg.UnreachableAfter/8)
	return 2*every - every/4
}

// hears handles the word of a peer about a NIC that this NIC does not know. first says that it
// belongs to the first table of the peer.
func (t *Table) hears(p *Peer, id uint64, addr netip.AddrPort, first bool) {
	h := &t.hearsay
	same := func(r *rumour) bool { return r.id == id && r.addr == addr }
	switch {
	case t.cfg.HearsayFromPeers && slices.ContainsFunc(h.rumours, same):
		return
	case !t.cfg.HearsayFromPeers, p.credit == 0, len(h.rumours) >= limits.Hearsay:
		t.count(vni.NICNodesRefused)
		return
	}
	p.credit--
	r := &rumour{id: id, addr: addr, teller: p, at: t.nic.Now()}
	if first {
		r.first = p.gatherBy
		if r.first == 0 {
			r.first = t.nic.Now().Add(limits.GatherWithin)
		}
	}
	h.rumours = append(h.rumours, r)
	t.nic.CheckAt(0)
}

// hearsayAwaited reports whether a NIC of a first table has yet to be called. Claims, and sends
// to unknown names, wait for it, but no longer than for the peer that told of it.
func (t *Table) hearsayAwaited(now clock.Time) bool {
	return slices.ContainsFunc(t.hearsay.rumours, func(r *rumour) bool { return r.calls == 0 && now < r.first })
}

// checkHearsay ends calls without an answer, and begins calls that are due.
func (t *Table) checkHearsay() {
	for _, r := range slices.Clone(t.hearsay.rumours) {
		if r.first != 0 {
			t.expires(r.first)
			if r.first <= t.nic.Now() {
				r.first = 0
			}
		}
		if r.call != nil && r.at <= t.nic.Now() {
			t.unanswered(r)
		}
	}
	for r := t.nextCall(); r != nil; r = t.nextCall() {
		t.call(r)
	}
	for _, r := range t.hearsay.rumours {
		if r.at > t.nic.Now() { // else it waits for the end of another call
			t.nic.CheckAt(r.at)
		}
	}
}

// nextCall returns the rumour whose NIC is called next; nil if none is due, or no call is free.
// Tellers with more credit come first: their earlier news was true.
func (t *Table) nextCall() (next *rumour) {
	if t.hearsay.calls >= limits.HearsayCalls {
		return nil
	}
	for _, r := range t.hearsay.rumours {
		due := r.call == nil && r.at <= t.nic.Now() && r.teller.calls < limits.HearsayCallsPerTeller
		if due && (next == nil || r.teller.credit > next.teller.credit) {
			next = r
		}
	}
	return next
}

// call calls the NIC of a rumour, unless it is known by now.
func (t *Table) call(r *rumour) {
	if p := t.nic.Peer(r.id); p != nil {
		if p.Up() || p.named || p.hearsay == nil {
			t.endRumour(r, p.Up() && p.Addr() == r.addr || p.named)
		} else { // it is called at another address
			r.at = p.hearsay.at
		}
		return
	}
	if !t.mayDisturb(r.addr.Addr()) {
		t.count(vni.NICNodesRefused)
		t.endRumour(r, false)
		return
	}
	p, err := t.add(r.id, r.addr)
	if err != nil { // the peer table is full
		t.count(vni.NICNodesRefused)
		t.endRumour(r, false)
		return
	}
	if p.named || p.Up() { // its address was named, without its id
		t.endRumour(r, true)
		return
	}
	p.hearsay, r.call, r.at = r, p, t.nic.Now().Add(t.callTime())
	t.hearsay.calls++
	r.teller.calls++
	t.checkRetry(p)
}

// mayDisturb reports whether a host may be called once more, and counts the call if no NIC has
// answered there.
func (t *Table) mayDisturb(host netip.Addr) bool {
	if slices.ContainsFunc(t.peers, func(p *Peer) bool { return p.Up() && p.Addr().Addr() == host }) {
		return true
	}
	h, now := &t.hearsay, t.nic.Now()
	for a, s := range h.silent { // order does not matter: only deletions
		if s.until <= now {
			delete(h.silent, a)
		}
	}
	s := h.silent[host]
	if s == nil {
		if len(h.silent) >= limits.HearsayHosts {
			return false
		}
		s = &silence{until: now.Add(limits.HearsayForgiven)}
		h.silent[host] = s
	}
	s.calls++
	return s.calls <= limits.HearsayCallsPerHost
}

// unanswered ends a call without an answer.
func (t *Table) unanswered(r *rumour) {
	p := r.call
	t.unheard(p)
	t.Forget(p)
	if r.calls++; r.calls >= limits.HearsayTries {
		t.count(vni.NICNodesForgotten)
		t.endRumour(r, false)
		return
	}
	r.at = t.nic.Now().Add(t.callTime() << r.calls)
}

// unheard notes that a peer is no longer called on hearsay.
func (t *Table) unheard(p *Peer) {
	if r := p.hearsay; r != nil {
		p.hearsay, r.call, r.at = nil, nil, t.nic.Now()
		t.hearsay.calls--
		r.teller.calls--
	}
}

// proves ends the rumours about a NIC that is up, and returns the credit of true rumours to their
// tellers.
func (t *Table) proves(p *Peer) {
	t.unheard(p)
	delete(t.hearsay.silent, p.Addr().Addr())
	for _, r := range slices.Clone(t.hearsay.rumours) {
		if r.id == p.NIC() {
			t.endRumour(r, r.addr == p.Addr())
		}
	}
}

// endRumour ends a rumour. A true one returns the credit to its teller, and one lost credit more.
func (t *Table) endRumour(r *rumour, good bool) {
	t.hearsay.rumours = slices.DeleteFunc(t.hearsay.rumours, func(o *rumour) bool { return o == r })
	if good {
		r.teller.credit = min(r.teller.credit+2, limits.HearsayPerTeller)
	}
	t.changed = true
}

// MakeRoom gives up the place of a peer that has not proved itself, or of the peer that has been
// down for longest. It keeps peers that are up or that the owner of this NIC has named. It
// reports whether it found such a peer.
func (t *Table) MakeRoom() bool {
	var out *Peer
	for _, p := range t.peers {
		if p.named || p.Up() {
			continue
		}
		if out == nil || p.hearsay != nil && out.hearsay == nil ||
			(p.hearsay != nil) == (out.hearsay != nil) && p.forgetAt < out.forgetAt {
			out = p
		}
	}
	if out == nil {
		return false
	}
	t.Forget(out)
	return true
}
