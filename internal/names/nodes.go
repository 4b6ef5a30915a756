package names

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/wire"
)

// The NIC Table (QNIX-52): every NIC of the fabric that this NIC knows.

// Peer is another NIC in the view of this package. It is part of the engine's entry for the NIC.
type Peer struct {
	*rel.Endpoint // its NIC() is 0 until it has said hello, if it was added only by its address

	Position wire.Position // of the NIC, on the torus of the fabric, from its own record

	hearsay *rumour // the rumour of which this is an unanswered call; nil: none
	credit  int     // records of other NICs that it may still tell
	calls   int     // calls in progress because of such records

	added   bool // by AddNode or the word of another NIC, so it may stay away and come back
	named   bool // by AddNode, so it is never forgotten while it stays away
	anyID   bool // named without its id, so another NIC may be there in its place
	removed bool // by RemoveNode; forgotten when its pair is down
	failed  bool // it could not be reached, or was lost, and has not come back

	// places holds the addresses from AddNode; the search tries each in turn (attend.go).
	places   []netip.AddrPort
	lastAt   netip.AddrPort   // where it was up since
	silentAt []netip.AddrPort // those of places where it has not answered since it was last up
	turns    int              // how many of them are tried before the attempt at a session ends
	turnAt   clock.Time       // when the next of them is tried

	retryAt  clock.Time    // when a pair that is down is opened again
	pause    time.Duration // before that, after a failed attempt
	forgetAt clock.Time    // unless it has come back, or is named

	wasUp bool // a session was open, and has not been taken down
	// lostHeard is when the peer was last heard in the previous session, if that session was
	// lost. 0: it ended otherwise, or there was none.
	lostHeard clock.Time
	lostLife  uint64 // its incarnation then
	// back: the peer was silent for as long as a partition takes, and is back in the same life.
	back bool

	// The reasons to probe it: it was removed, has been silent for long, or another NIC uses its
	// id.
	leaving, looked, doubted bool
	lookedAt                 clock.Time // when the probing began
	doubtedTill              clock.Time

	first, firstDue       int        // records of its first table: arrived so far, and announced
	promised, promisedDue int        // claims still to be decided: known so far, and announced
	told                  bool       // its first table is complete
	synced                bool       // and so is the rest that it announced
	syncBy                clock.Time // when sends to unknown names stop waiting for that
	gatherBy              clock.Time // when claims stop waiting for its table; 0: not timed
}

// Synced reports whether the peer has told all its names.
func (p *Peer) Synced() bool { return p.synced }

// probe turns probing of the peer on or off for the reason why.
func (p *Peer) probe(why *bool, on bool) {
	if *why != on {
		*why = on
		if on {
			p.Watch(1)
		} else {
			p.Watch(-1)
		}
	}
}

// AddNode says that there is a NIC at addr; id is 0 if it is not known yet. A pair with the NIC
// is opened at once and reopened whenever it is lost, since names spread over pairs. A NIC that
// is up at another address is refused, unless it was removed from there before. others are
// further addresses of its host at which the NIC may be instead.
func (t *Table) AddNode(id uint64, addr netip.AddrPort, others ...netip.AddrPort) error {
	places := append([]netip.AddrPort{addr}, others...)
	for _, p := range t.peers {
		if p.Up() && (id == 0 || p.NIC() == id) && slices.Contains(places, p.Addr()) {
			addr = p.Addr() // it has called first
		}
	}
	p, err := t.add(id, addr)
	if errors.Is(err, rel.ErrPeers) && t.MakeRoom() {
		p, err = t.add(id, addr)
	}
	if err == nil {
		t.unheard(p) // it is not called on hearsay any more
		p.named, p.anyID, p.places, p.lastAt = true, id == 0, places, addr
		p.turns, p.turnAt = len(places)-1, t.nic.Now().Add(t.callTime())
	}
	return err
}

// absorb merges p with the NIC that was named without its id, if p is up at another of the named
// addresses: p has called this NIC from there.
func (t *Table) absorb(p *Peer) {
	for _, q := range t.peers {
		if q == p || !q.named || q.NIC() != 0 || !slices.Contains(q.places, p.Addr()) {
			continue
		}
		p.added, p.named, p.anyID, p.places = true, true, true, q.places
		q.added, q.named, q.removed = false, false, true // forgetRemoved does the rest
		t.nic.CheckAt(0)
	}
}

// Other says that another NIC has answered at the address of a peer. If the peer was named only
// by that address, the name now refers to the other NIC: a restarted program has a new id. The
// peer is forgotten in its time, unless it is up again by then.
func (t *Table) Other(p *Peer, nic uint64) {
	at := p.Addr()
	if !p.named || !p.anyID || !slices.Contains(p.places, at) {
		return
	}
	// An error: it is up elsewhere, or there are enough NICs.
	if other, err := t.add(nic, at); err == nil {
		other.named, other.anyID, other.places, other.lastAt = true, true, p.places, at
		p.named = false
	}
}

func (t *Table) add(id uint64, addr netip.AddrPort) (*Peer, error) {
	if id == t.cfg.NIC {
		return nil, fmt.Errorf("nic: node %v has this NIC's own id", addr)
	}
	p, err := t.nic.Open(id, addr)
	if old := t.nic.Peer(id); errors.Is(err, rel.ErrAddress) && old != nil && old.removed {
		// The NIC with the session is not the one that the registry means by this id.
		t.Forget(old)
		p, err = t.nic.Open(id, addr)
	}
	if err != nil {
		return nil, fmt.Errorf("nic: node %v: %w", addr, err)
	}
	p.keep()
	p.added = true
	t.nic.CheckAt(0)
	return p, nil
}

// Add adds a peer that the engine has just met.
func (t *Table) Add(p *Peer, ep *rel.Endpoint) {
	p.Endpoint, p.syncBy, p.credit = ep, clock.Never, limits.HearsayPerTeller
	t.peers = append(t.peers, p)
}

// Reasons to refuse a hello.
var (
	ErrOwnID   = errors.New("nic: hello with this NIC's own id")
	ErrUnknown = errors.New("nic: hello of a NIC that is not in the configuration")
	ErrKnownID = errors.New("nic: hello of a second NIC with a known id")
)

// Admit decides whether a NIC that says hello may open a pair with this one (decision 1). It
// returns nil if so, and the reason otherwise.
func (t *Table) Admit(nic uint64, from netip.AddrPort) error {
	if nic == t.cfg.NIC {
		return ErrOwnID
	}
	if t.cfg.Static && !slices.ContainsFunc(t.peers, func(p *Peer) bool { return p.added && p.Addr() == from }) {
		return ErrUnknown
	}
	if p := t.nic.Peer(nic); p != nil && p.Up() && p.Addr() != from {
		t.doubt(p)
		return ErrKnownID
	}
	return nil
}

// Up begins a session with a peer. The tables go to it before anything else.
func (t *Table) Up(p *Peer) {
	for _, n := range t.open {
		if n.near.found {
			n.near.comes(p)
		}
	}
	for _, c := range t.contests {
		if c.near.found {
			c.near.comes(p)
		}
	}
	t.proves(p)
	p.comesBack(t.nic.Now(), t.cfg.UnreachableAfter)
	p.lastAt, p.turns = p.Addr(), 0
	t.absorb(p)
	p.failed, p.told, p.synced = false, false, false
	p.first, p.firstDue, p.promised, p.promisedDue = 0, -1, 0, 0
	p.retryAt, p.pause = clock.Never, 0
	p.syncBy = t.nic.Now().Add(t.cfg.UnreachableAfter)
	p.gatherBy = 0
	t.nic.CheckAt(0)
	t.tellTables(p)
}

// Down ends a session, or the attempt at one. ended says that the NIC's processes have ended,
// too.
func (t *Table) Down(p *Peer, ended bool) {
	now := t.nic.Now()
	if p.wasUp && len(p.places) > 1 {
		p.silentAt, p.turns = nil, len(p.places)-1
	}
	p.goes(ended)
	p.probe(&p.doubted, false)
	p.probe(&p.looked, false)
	if !p.failed {
		p.forgetAt = now.Add(t.cfg.FailureTimeout)
	}
	p.failed, p.told, p.synced, p.syncBy = true, false, false, clock.Never
	p.retryAt = now.Add(max(p.pause, limits.HelloEvery))
	t.lose(p, ended)
	t.changed = true
	t.nic.CheckAt(0) // which times the rest
}

// goes notes how a session ended, for comesBack.
func (p *Peer) goes(ended bool) {
	if !p.wasUp {
		return
	}
	p.wasUp, p.lostHeard, p.lostLife = false, 0, p.Incarnation()
	if !ended {
		p.lostHeard = p.Heard()
	}
}

// comesBack notes whether the peer was on the other side of a partition. If so, it was not heard
// for at least half of unreachableAfter: NICs give one another up after all of it, and the two do
// not begin to count at the same time.
func (p *Peer) comesBack(now clock.Time, unreachableAfter time.Duration) {
	silent := p.lostHeard != 0 && now.Sub(p.lostHeard) >= unreachableAfter/2
	p.back = silent && p.lostLife == p.Incarnation()
	p.wasUp, p.lostHeard = true, 0
}
