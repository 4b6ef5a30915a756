package names

import (
	"net/netip"
	"slices"
)

// A NIC that the registry no longer knows is dropped in two steps, since the registry may be
// wrong: a working session is better evidence than the word of a third party.
//
//	added ── RemoveNode ──► removed ── the pair is down ──► forgotten
//	  ▲                        │       (up: probed till then)
//	  └──────── AddNode ───────┘

// RemoveNode says that there is no longer a NIC with this id, or at addr if id is 0. If the NIC
// is not up, the next Expire forgets it, with its names and everything that waits for it. If it
// is up, it is probed for as long as it answers, and forgotten UnreachableAfter its death. An
// unknown NIC is no error.
func (t *Table) RemoveNode(id uint64, addr netip.AddrPort) {
	i := slices.IndexFunc(t.peers, func(p *Peer) bool {
		if id != 0 {
			return p.NIC() == id
		}
		return p.Addr() == addr || p.named && p.anyID && slices.Contains(p.places, addr)
	})
	if i < 0 || t.peers[i].removed {
		return
	}
	p := t.peers[i]
	p.added, p.named, p.removed = false, false, true
	p.probe(&p.leaving, p.Up())
	t.nic.CheckAt(0)
}

// keep undoes RemoveNode.
func (p *Peer) keep() {
	p.removed = false
	p.probe(&p.leaving, false)
}

// forgetRemoved forgets the removed peers whose pair is down.
func (t *Table) forgetRemoved() {
	gone := func(p *Peer) bool { return p.removed && !p.Up() }
	if !slices.ContainsFunc(t.peers, gone) {
		return
	}
	for _, p := range slices.Clone(t.peers) {
		if gone(p) {
			t.Forget(p)
		}
	}
}

// Forget drops a peer finally. Its operations ended when its pair went down, or end now if the
// pair was being opened.
func (t *Table) Forget(p *Peer) {
	t.unheard(p)
	p.keep()
	p.probe(&p.doubted, false)
	p.probe(&p.looked, false)
	t.nic.Forget(p)
	for _, n := range t.of(p) {
		n.stale, n.forget = true, t.nic.Now()
	}
	t.forgetAsked(p)
	t.expireNames()
	t.peers = slices.DeleteFunc(t.peers, func(other *Peer) bool { return other == p })
	t.changed = true
}
