package names

import (
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
)

// Every name has a home: the NIC with the highest hash of name and id among all NICs that are up
// (rendezvous hash). So all NICs that know the same NICs agree. A NIC that comes or goes moves
// only the names whose home it is. The home of a name decides which process may have it
// (confirm.go).

// nearest is the home of an open claim. Such a claim is checked again at every change, and a
// fabric may have a thousand NICs. So a new NIC is compared only with the home; all NICs are
// compared only if the home itself has gone.
type nearest struct {
	found  bool
	home   *Peer // nil is this NIC itself
	sum    uint64
	weight uint64
}

// Home returns a name's home in this NIC's view of the fabric; nil is this NIC itself.
func (t *Table) Home(name vni.Name) *Peer { return t.nearestTo(name).home }

func (t *Table) nearestTo(name vni.Name) nearest {
	h := fnv.New64a()
	h.Write(name.App[:])
	h.Write(binary.LittleEndian.AppendUint32(nil, name.Index))
	n := nearest{found: true, sum: h.Sum64()}
	n.weight = mix(n.sum ^ t.cfg.NIC)
	for _, p := range t.peers {
		if p.Up() {
			n.comes(p)
		}
	}
	return n
}

// comes makes a NIC that is up the home if it is nearer.
func (n *nearest) comes(p *Peer) {
	if w := mix(n.sum ^ p.NIC()); w > n.weight {
		n.home, n.weight = p, w
	}
}

// homeOf returns the home of an open claim; nil is this NIC itself.
func (t *Table) homeOf(n *Entry) *Peer { return t.homeFor(&n.near, n.Name) }

// homeFor returns the home of a name, and keeps it in near.
func (t *Table) homeFor(near *nearest, name vni.Name) *Peer {
	if !near.found {
		*near = t.nearestTo(name)
	}
	return near.home
}

// mix scatters x over all bits. Different numbers stay different.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// gathering reports whether some expected NIC has yet to tell its names. Until then this NIC does
// not know which NIC to ask, or what to answer. A NIC that has not come up within
// limits.GatherWithin is no longer awaited.
func (t *Table) gathering() bool {
	now := t.nic.Now()
	return t.cfg.Defect != mutate.GatherSkipped &&
		(slices.ContainsFunc(t.peers, func(p *Peer) bool { return p.awaited(now) }) || t.hearsayAwaited(now))
}

func (p *Peer) awaited(now clock.Time) bool {
	return p.hearsay == nil && !p.told && !p.failed && !p.removed && (p.gatherBy == 0 || now < p.gatherBy)
}

// checkGather times the end of that wait. The wait begins with the first Expire after the peer
// was added, or came up.
func (t *Table) checkGather(p *Peer) {
	if p.told || p.failed {
		return
	}
	if p.gatherBy == 0 {
		p.gatherBy = t.nic.Now().Add(limits.GatherWithin)
	}
	t.expires(p.gatherBy)
}

// mayKnowMore reports whether some NIC has not told all its names yet.
func (t *Table) mayKnowMore() bool {
	now := t.nic.Now()
	return slices.ContainsFunc(t.peers, func(p *Peer) bool {
		return p.hearsay == nil && !p.synced && !p.failed && now < p.syncBy
	}) || t.hearsayAwaited(now)
}

// checkSyncBy ends the wait of sends to unknown names for a peer that withholds its names.
func (t *Table) checkSyncBy(p *Peer) {
	if !p.synced && p.syncBy != clock.Never {
		t.expires(p.syncBy)
	}
}

// expires makes the next Settle check all waiting operations again once the time at has come.
func (t *Table) expires(at clock.Time) {
	if at <= t.nic.Now() {
		t.changed = true
	} else {
		t.nic.CheckAt(at)
	}
}
