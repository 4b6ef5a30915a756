package nic

import (
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Every name has a home: of all NICs that are up the one with the highest hash of name and id (rendezvous hash), so that
// all who know the same NICs agree, and one that comes or goes moves only the names whose home it is. The home of a name
// says who may have it (confirm.go).

// homeOf finds a name's home as this NIC sees the fabric; nil is this NIC itself.
func (e *Engine) homeOf(name vni.Name) (home *peer) {
	h := fnv.New64a()
	h.Write(name.App[:])
	h.Write(binary.LittleEndian.AppendUint32(nil, name.Index))
	sum := h.Sum64()
	best := mix(sum ^ e.cfg.ID)
	for _, pr := range e.nodes.list {
		if pr.nic == 0 || !pr.ep.Up() {
			continue
		}
		if w := mix(sum ^ pr.nic); w > best {
			home, best = pr, w
		}
	}
	return home
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
