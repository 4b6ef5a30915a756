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

// The NIC Table (QNIX-52): every NIC of the fabric that this one knows.

// Peer is another NIC as this package sees it. It lies in the engine's entry for the NIC.
type Peer struct {
	*rel.Endpoint // its NIC() is 0 until it has said hello, if it was added by its address alone

	Position wire.Position // of the NIC, on the torus of the fabric, as it says itself

	hearsay *rumour // of which this is a call without an answer so far; nil: it is none
	credit  int     // records of other NICs that it may still tell,
	calls   int     // and calls in progress because of such records

	added   bool // by AddNode or the word of another NIC, so that it may stay away and come back
	named   bool // by AddNode, so that it is not forgotten however long it stays away
	anyID   bool // without its id, so that another NIC may be there in its place
	removed bool // by RemoveNode; forgotten when its pair is down
	failed  bool // it could not be reached, or was lost, and has not come back

	places   []netip.AddrPort // where AddNode said that it may be; it is looked for at each by turns (attend.go),
	lastAt   netip.AddrPort   // and where it was up since
	silentAt []netip.AddrPort // those of them where it did not answer since it was up
	turns    int              // so many of them are tried before the attempt at a session has ended
	turnAt   clock.Time       // when the next of those is

	retryAt  clock.Time    // when a pair that is down is opened again
	pause    time.Duration // before that, after an attempt that failed
	forgetAt clock.Time    // unless it has come back, or is named

	wasUp     bool       // a session was open, and has not been taken down
	lostHeard clock.Time // when the peer was last heard in the session before, if it was lost; 0: it ended otherwise, or there was none
	lostLife  uint64     // its incarnation then
	back      bool       // it was silent for as long as a partition takes, and is back in the same life

	leaving, looked, doubted bool       // why it is probed: it was removed, has been silent for long, or another NIC uses its id
	lookedAt                 clock.Time // when it began to be looked at
	doubtedTill              clock.Time

	first, firstDue       int        // records of its first table: come so far, and announced
	promised, promisedDue int        // claims whose fate was to follow: known so far, and announced
	told                  bool       // its first table is complete
	synced                bool       // and what was to follow has come
	syncBy                clock.Time // when sends to unknown names do not wait for that any more
	gatherBy              clock.Time // when claims do not wait for its table; 0 until that is timed
}

// Synced reports whether the peer has told all its names.
func (p *Peer) Synced() bool { return p.synced }

// probe has the peer probed while why is set.
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

// AddNode says that there is a NIC at addr; id is 0 if that is not known yet. A pair with it is opened at once and as often as
// it is lost, since names spread over pairs. A NIC that is up at another address is refused, unless it was removed from there
// before. Its host may have other addresses, at which the NIC may be instead.
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

// absorb makes p the NIC that was named without its id, if p is up at another of the addresses that
// were named: it has called this NIC from there.
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

// Other says that another NIC has answered where a peer was called. If the peer was named by that address alone, the other one is meant from now on: a program
// that is started anew has a new id. The peer is forgotten in its time, unless it is up again by then.
func (t *Table) Other(p *Peer, nic uint64) {
	at := p.Addr()
	if !p.named || !p.anyID || !slices.Contains(p.places, at) {
		return
	}
	if other, err := t.add(nic, at); err == nil { // else it is up elsewhere, or there are NICs enough
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
		t.Forget(old) // the NIC that has the session is not the one that the registry means by this id
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

// Add takes a peer in that the engine has just come to know.
func (t *Table) Add(p *Peer, ep *rel.Endpoint) {
	p.Endpoint, p.syncBy, p.credit = ep, clock.Never, limits.HearsayPerTeller
	t.peers = append(t.peers, p)
}

// Reasons for which a hello is refused.
var (
	ErrOwnID   = errors.New("nic: hello with this NIC's own id")
	ErrUnknown = errors.New("nic: hello of a NIC that is not in the configuration")
	ErrKnownID = errors.New("nic: hello of a second NIC with a known id")
)

// Admit says whether a NIC that says hello may open a pair with this one (decision 1).
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

// Up begins a session with a peer: the tables go to it before anything else.
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

// Down ends a session, or the attempt at one. ended says that the NIC's processes have ended, too.
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

// comesBack notes whether the peer was on the other side of a partition: it was not heard for half
// of unreachableAfter at least, since NICs give one another up after all of it, and both do not
// begin to count at the same time.
func (p *Peer) comesBack(now clock.Time, unreachableAfter time.Duration) {
	silent := p.lostHeard != 0 && now.Sub(p.lostHeard) >= unreachableAfter/2
	p.back = silent && p.lostLife == p.Incarnation()
	p.wasUp, p.lostHeard = true, 0
}
