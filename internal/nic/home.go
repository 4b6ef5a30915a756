package nic

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Every name has a home: of all NICs that are up the one with the highest hash of name and id (rendezvous hash), so that
// all who know the same NICs agree, and one that comes or goes moves only the names whose home it is. The home of a name
// says who may have it (confirm.go).

// nearest is the home of an open claim. Such a claim is looked at again whenever anything changes, and a fabric may have a
// thousand NICs: so a NIC that comes is compared with the home alone, and all are only when the home itself has gone.
type nearest struct {
	found  bool
	home   *peer // nil is this NIC itself
	sum    uint64
	weight uint64
}

// homeOf finds a name's home as this NIC sees the fabric; nil is this NIC itself.
func (e *Engine) homeOf(name vni.Name) *peer { return e.nearestTo(name).home }

func (e *Engine) nearestTo(name vni.Name) nearest {
	h := fnv.New64a()
	h.Write(name.App[:])
	h.Write(binary.LittleEndian.AppendUint32(nil, name.Index))
	n := nearest{found: true, sum: h.Sum64()}
	n.weight = mix(n.sum ^ e.cfg.ID)
	for _, pr := range e.nodes.list {
		if pr.nic != 0 && pr.ep.Up() {
			n.comes(pr)
		}
	}
	return n
}

// comes has a NIC that is up be the home if it is nearer.
func (n *nearest) comes(pr *peer) {
	if w := mix(n.sum ^ pr.nic); w > n.weight {
		n.home, n.weight = pr, w
	}
}

// homeOfClaim is homeOf, of an open claim.
func (e *Engine) homeOfClaim(n *nameEntry) *peer {
	if !n.near.found {
		n.near = e.nearestTo(n.name)
	}
	return n.near.home
}

// comes tells the open claims of a NIC that has come up.
func (t *nameTable) comes(pr *peer) {
	for _, n := range t.open {
		if n.near.found {
			n.near.comes(pr)
		}
	}
}

// auditHomes looks whether open claims know their homes.
func (e *Engine) auditHomes() error {
	for _, n := range e.names.open {
		if n.near.found && n.near.home != e.homeOf(n.name) {
			return fmt.Errorf("the claim of slot %d of NIC %d to %v takes another NIC for its home", n.slot, n.nic, n.name)
		}
	}
	return nil
}

// mix scatters x over all bits. Different numbers stay different.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// gathering reports whether some NIC that should be there has yet to tell its names: until then nobody here knows whom to
// ask, or what to answer. One that has not come up within limits.GatherWithin is waited for no more.
func (e *Engine) gathering() bool {
	return slices.ContainsFunc(e.nodes.list, func(pr *peer) bool { return pr.awaited(e.now) })
}

func (pr *peer) awaited(now clock.Time) bool {
	return !pr.told && !pr.failed && !pr.removed && (pr.gatherBy == 0 || now < pr.gatherBy)
}

// checkGather times the end of that wait. It begins with the first poll after the peer was added, or came up.
func (e *Engine) checkGather(pr *peer) {
	switch {
	case pr.told || pr.failed:
	case pr.gatherBy == 0:
		pr.gatherBy = e.now.Add(limits.GatherWithin)
		e.checkAt(pr.gatherBy)
	case pr.gatherBy <= e.now:
		e.reconsider = true
	default:
		e.checkAt(pr.gatherBy)
	}
}
