package nic

import (
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Processes end. Sends to a process that has gone end at once. So do receives from it if it was on
// this NIC. If it was on another NIC, they end after a grace: its last messages may arrive after
// the news of its end, since records overtake one another.

// processGone ends what our processes have in progress with a process that has gone. named says
// that it had its name, and not only a claim to it; receives from that name then end too.
func (e *Engine) processGone(k vni.Address, name vni.Name, named bool) {
	at := e.now
	if k.NIC != e.cfg.ID {
		at = at.Add(limits.GoneGrace)
	}
	pr := e.peerOf(k.NIC)
	for p := range e.procs.all {
		for r := range p.receives {
			if r.state != recvIdle && (r.exact && r.from == k || named && !r.exact && r.sender == name) {
				e.expiry.doom(r, at)
			}
		}
		d, src := p.dests[k], p.sources[sourceKey{pr, k.Slot, k.Gen}]
		if d != nil || src != nil {
			e.tellGone(p, k, d, src)
		}
		if d != nil {
			e.endDest(p, d)
		}
	}
	if pr != nil {
		delete(pr.remotes, remoteKey{k.Slot, k.Gen})
	}
	e.bury()
}

// tellGone tells p once that a process has gone to which it has sent (d) or from which it has
// received (src), or both. The news may come by the tables or by the refusal of a send, which may
// be first.
func (e *Engine) tellGone(p *process, k vni.Address, d *dest, src *source) {
	told := d != nil && d.over || src != nil && src.over
	if d != nil {
		d.over = true
	}
	if src != nil {
		src.over = true
	}
	if told {
		return
	}
	ev := vni.Event{Kind: vni.EventProcessGone, NIC: k.NIC, Slot: k.Slot, Gen: k.Gen}
	if n := e.names.At(k); n != nil {
		ev.Name = n.Name
	}
	e.tell(p, ev)
}

// endDest ends every send of p to a process that has gone.
func (e *Engine) endDest(p *process, d *dest) {
	for s := range p.underWay {
		if s.dest == d {
			e.abandonSend(s, wire.ReasonNone, vni.StatusProcessGone)
		} else if s.kind == kindMulticast {
			e.loseReceivers(s.multi, vni.StatusProcessGone, func(o *dest) bool { return o == d })
		}
	}
	e.forgetDest(p, d)
}

// bury ends the doomed receives whose time has come. A receive whose message is arriving continues
// to wait, as if it had been matched: the rest arrives, or the session ends.
func (e *Engine) bury() {
	for r := range over(&e.expiry, &e.expiry.doomed, e.now, func(r *receive) clock.Time { return r.endAt }) {
		if r.p.comesFor(r) {
			e.expiry.doom(r, e.now.Add(limits.GoneGrace))
			continue
		}
		e.orphanReceive(r, vni.StatusProcessGone)
	}
}

// comesFor reports whether a message that r wants is parked only because another message, or the
// rest of it, is arriving.
func (p *process) comesFor(r *receive) bool {
	for _, src := range p.sources { // order does not matter
		first := src.early.front()
		if first == nil || first.env.Number != src.expected || !first.lacksBytes() {
			continue
		}
		for inb := range src.early.all {
			if inb.kind != inboundVoid && r.wants(src, &inb.env) {
				return true
			}
		}
	}
	return false
}

// ended reports whether a process is known to have ended, and until when its last messages may
// still come.
func (e *Engine) ended(k vni.Address) (bool, clock.Time) {
	if k.NIC == e.cfg.ID {
		p := e.process(k.Slot)
		return p == nil || p.gone || p.gen != k.Gen, e.now
	}
	return e.names.Ended(k)
}
