package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/link"
)

// A NIC that the registry no longer knows is let go of in two steps, since the registry may be wrong: a session that
// works is worth more than the word of a third party.
//
//	added ── RemoveNode ──► removed ── the pair is down ──► forgotten
//	  ▲                        │       (up: probed till then)
//	  └──────── AddNode ───────┘

// RemoveNode says that there is no longer a NIC with this id, or at addr if id is 0. One that is not up is forgotten at
// the next Poll, with its names and everything that waits for it. One that is up is asked whether it lives as long as it
// is; a dead one is forgotten after UnreachableAfter. A NIC that is not known is no error.
func (e *Engine) RemoveNode(id uint64, addr link.Addr) {
	i := slices.IndexFunc(e.nodes.list, func(pr *peer) bool {
		return id != 0 && pr.nic == id || id == 0 && pr.ep.Addr() == addr
	})
	if i < 0 {
		return
	}
	pr := e.nodes.list[i]
	if pr.removed {
		return
	}
	pr.added, pr.named, pr.removed = false, false, true
	if pr.ep.Up() {
		pr.ep.Watch(1)
		pr.watched = true
	}
	e.checkAt(0)
}

// keep takes RemoveNode back.
func (pr *peer) keep() {
	pr.removed = false
	if pr.watched {
		pr.watched = false
		pr.ep.Watch(-1)
	}
}

// forgetRemoved forgets the removed peers whose pair is down.
func (e *Engine) forgetRemoved() {
	if !slices.ContainsFunc(e.nodes.list, func(pr *peer) bool { return pr.removed && !pr.ep.Up() }) {
		return
	}
	for _, pr := range slices.Clone(e.nodes.list) {
		if pr.removed && !pr.ep.Up() {
			e.forget(pr)
		}
	}
}

// forget drops a peer for good. What was under way to it has ended when its pair went down, or ends now if one was being
// opened.
func (e *Engine) forget(pr *peer) {
	pr.keep()
	e.trust(pr)
	e.lookAway(pr)
	e.rel.Forget(e.now, pr.ep)
	for _, n := range e.names.all {
		if pr.nic != 0 && n.nic == pr.nic {
			n.stale, n.forget = true, e.now
		}
	}
	for _, n := range e.names.open {
		e.forgetAsked(n, pr)
	}
	e.names.expire(e)
	delete(e.peers, pr.ep)
	e.lastPeer = nil
	if e.nodes.byID[pr.nic] == pr {
		delete(e.nodes.byID, pr.nic)
	}
	e.nodes.list = slices.DeleteFunc(e.nodes.list, func(other *peer) bool { return other == pr })
	e.reconsider = true
}
