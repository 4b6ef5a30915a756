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

// Every name has a home: of all NICs that are up the one with the highest hash of name and id (rendezvous hash), so that all
// NICs that know the same NICs agree, and one that comes or goes moves only the names whose home it is. The home of a name says
// which process may have it (confirm.go).

// nearest is the home of an open claim. Such a claim is looked at again whenever anything changes, and a fabric may have a
// thousand NICs: so a NIC that comes is compared with the home alone, and all are only when the home itself has gone.
type nearest struct {
	found  bool
	home   *Peer // nil is this NIC itself
	sum    uint64
	weight uint64
}

// Home finds a name's home as this NIC sees the fabric; nil is this NIC itself.
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

// comes has a NIC that is up be the home if it is nearer.
func (n *nearest) comes(p *Peer) {
	if w := mix(n.sum ^ p.NIC()); w > n.weight {
		n.home, n.weight = p, w
	}
}

// homeOf finds the home of an open claim; nil is this NIC itself.
func (t *Table) homeOf(n *Entry) *Peer { return t.homeFor(&n.near, n.Name) }

// homeFor finds the home of a name, and keeps it in near.
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

// gathering reports whether some NIC that should be there has yet to tell its names: until then this one does not know which to
// ask, or what to answer. One that has not come up within limits.GatherWithin is waited for no more.
func (t *Table) gathering() bool {
	now := t.nic.Now()
	return t.cfg.Defect != mutate.GatherSkipped &&
		(slices.ContainsFunc(t.peers, func(p *Peer) bool { return p.awaited(now) }) || t.hearsayAwaited(now))
}

func (p *Peer) awaited(now clock.Time) bool {
	return p.hearsay == nil && !p.told && !p.failed && !p.removed && (p.gatherBy == 0 || now < p.gatherBy)
}

// checkGather times the end of that wait. It begins with the first Expire after the peer was added, or came up.
func (t *Table) checkGather(p *Peer) {
	if p.told || p.failed {
		return
	}
	if p.gatherBy == 0 {
		p.gatherBy = t.nic.Now().Add(limits.GatherWithin)
	}
	t.expires(p.gatherBy)
}

// mayKnowMore reports whether there is a NIC whose names have not all been told yet.
func (t *Table) mayKnowMore() bool {
	now := t.nic.Now()
	return slices.ContainsFunc(t.peers, func(p *Peer) bool { return p.hearsay == nil && !p.synced && !p.failed && now < p.syncBy }) ||
		t.hearsayAwaited(now)
}

// checkSyncBy has sends to unknown names wait no longer for a peer that keeps its names to itself.
func (t *Table) checkSyncBy(p *Peer) {
	if !p.synced && p.syncBy != clock.Never {
		t.expires(p.syncBy)
	}
}

// expires has what waits looked at again when a time has come.
func (t *Table) expires(at clock.Time) {
	if at <= t.nic.Now() {
		t.changed = true
	} else {
		t.nic.CheckAt(at)
	}
}
