package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Processes end. Sends to one that has gone end at once. Receives from it end too, but if it was another NIC's only after
// a grace: its last messages may come after the news of its end, since records overtake one another.

// processGone ends what our processes have under way with one that has gone. named says that it had its name, not merely
// a claim to it: then receives from that name end too.
func (e *Engine) processGone(k destKey, name vni.Name, named bool) {
	at := e.now
	if k.nic != e.cfg.ID {
		at = at.Add(limits.GoneGrace)
	}
	for _, p := range e.procs {
		if p == nil {
			continue
		}
		for r := range p.receives {
			if r.state != recvIdle && (r.exact && r.from == k || named && !r.exact && r.sender == name) {
				e.doom(r, at)
			}
		}
		if d := p.dests[k]; d != nil {
			e.destOver(p, d)
			e.endDest(p, d)
		}
	}
	if pr := e.peerOf(k.nic); pr != nil {
		delete(pr.remotes, remoteKey{k.slot, k.gen})
	}
	e.bury()
}

// destOver notes that a process which p has sent to has gone, and tells p: once, whether the news comes by the tables or
// by the refusal of a send, which may be first.
func (e *Engine) destOver(p *process, d *dest) {
	if d.over {
		return
	}
	d.over = true
	ev := vni.Event{Kind: vni.EventProcessGone, NIC: d.key.nic, Slot: d.key.slot, Gen: d.key.gen}
	if n := e.names.byAddr[address(d.key)]; n != nil {
		ev.Name = n.name
	}
	e.tell(p, ev)
}

// endDest ends every send of p to a process that has gone.
func (e *Engine) endDest(p *process, d *dest) {
	for i := range p.sendNumbers() {
		if s := p.sendAt(i); s != nil && s.state != sendIdle && s.dest == d {
			e.giveUp(s, 0)
			e.completeSend(s, vni.StatusProcessGone)
		} else if s != nil && s.kind == kindMulticast && s.state != sendIdle {
			e.loseReceivers(s.multi, vni.StatusProcessGone, func(o *dest) bool { return o == d })
		}
	}
	e.forgetDest(p, d)
}

// doom ends a receive at a time, unless its message comes before.
func (e *Engine) doom(r *receive, at clock.Time) {
	if r.grave.in != nil {
		return
	}
	r.endAt = at
	n := e.doomed.tail // the grace is the same for all, so this is nearly always the place
	for n != nil && n.v.endAt > at {
		n = n.prev
	}
	e.doomed.insertAfter(&r.grave, n)
	e.checkAt(at)
}

// bury ends the doomed receives whose time has come. One that is matched by now gets its message, or ends if that does not
// come.
func (e *Engine) bury() {
	for r := e.doomed.front(); r != nil && r.endAt <= e.now; r = e.doomed.front() {
		r.grave.remove()
		if r.state == recvMatched {
			r.orphan = true
			continue
		}
		e.endReceive(r, vni.StatusProcessGone)
	}
	if r := e.doomed.front(); r != nil {
		e.checkAt(r.endAt)
	}
}

// ended reports whether a process is known to have ended, and until when its last messages may still come. Of a NIC that
// we have not heard everything of we do not know.
func (e *Engine) ended(k destKey) (bool, clock.Time) {
	if k.nic == e.cfg.ID {
		p := e.process(k.slot)
		return p == nil || p.gone || p.gen != k.gen, e.now
	}
	pr := e.peerOf(k.nic)
	if pr == nil {
		return true, e.now
	}
	if k.slot == 0 {
		return false, 0
	}
	if n := e.names.byAddr[address(k)]; n != nil {
		return n.dead, n.forget.Add(limits.GoneGrace - limits.NameKeep)
	}
	return pr.synced, e.now
}
