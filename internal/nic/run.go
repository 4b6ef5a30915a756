package nic

import (
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A run is a record that many messages of one process to one other share. If each check has the
// same result for all of them, it is made once, and they go into the receiver's ring in one piece:
//
//	all in order, nothing parked, credit for all, ─► as many as fit ─┐
//	and the first goes into the ring of a receive                    │ the rest
//	else ────────────────────────────────────────────────────────────┴──► one by one, as Frags
//
// So a receiver cannot tell a run from separate Frags.

// run handles a run of whole short messages.
func (e *Engine) run(pr *peer, r wire.Record) {
	env, lengths, data := r.Run()
	src := e.sourceOf(pr, &env, 0)
	if src == nil {
		return
	}
	first, at := e.packRun(src, &env, lengths, data)
	if first > 0 && e.cfg.Defect == mutate.RunCutShort {
		src.expected += uint32(lengths.Count() - first)
		return
	}
	e.ways[WayRunPacked] += uint64(first)
	e.ways[WayRunApart] += uint64(lengths.Count() - first)
	for i := first; i < lengths.Count() && src.p.served(); i++ {
		n := lengths.At(i)
		one := env
		one.Number += uint32(i)
		e.fragOf(src, &one, data[at:at+n])
		at += n
	}
}

// packRun puts as many messages of a run as fit into a ring at once. It returns their number and
// bytes, 0 if the first does not fit.
func (e *Engine) packRun(src *source, env *wire.Envelope, lengths wire.Lengths, data []byte) (n, bytes int) {
	rc := e.ringFor(src, env, lengths)
	if rc == nil {
		return 0, 0
	}
	n, bytes = rc.fitting(src, lengths, len(data))
	cost := stagedCosts(n, bytes)
	// The messages that the credit covers then come one by one.
	if n == 0 || !src.credit.covers(cost) || e.arrived(src, env, cost) != goesOn {
		return 0, 0
	}
	e.giveBackCredit(src, cost, rc)
	e.packAll(rc, src, env, lengths[:2*n], data[:bytes])
	return n, bytes
}

// ringFor returns the receive into whose ring a run goes at once, or nil if it goes one by one.
func (e *Engine) ringFor(src *source, env *wire.Envelope, lengths wire.Lengths) *receive {
	// A filter sees the messages one by one.
	if src.early.n > 0 || !e.inOrder(src, env.Number) || src.p.guard != nil {
		return nil
	}
	rc := e.findReceive(src, env, uint64(lengths.At(0)), true)
	if rc == nil || rc.ring == nil {
		return nil
	}
	return rc
}

// packAll puts messages that fit into rc's ring.
func (e *Engine) packAll(rc *receive, src *source, env *wire.Envelope, lengths wire.Lengths, data []byte) {
	n, bytes := lengths.Count(), len(data)
	e.countReceived(src.p, uint64(n), uint64(bytes))
	need := vni.RingRunNeeds(2*n+bytes, rc.ring.src != src)
	to := vni.PutRingRun(rc.ring.record(src, rc.ring.w.Place(need)), env.Tag, n, 2*n+bytes)
	copy(to, lengths)
	copy(to[2*n:], data)
	e.counts[vni.NICCopiedIn] += uint64(bytes)
	e.add(rc, need, to, note{tag: env.Tag, count: int32(n)})
	src.expected += uint32(n)
}

// fitting returns how many messages of a run fit r's ring at once, and their bytes. all is the
// bytes of the whole run.
func (r *receive) fitting(src *source, lengths wire.Lengths, all int) (n, bytes int) {
	rg, count := r.ring, lengths.Count()
	fresh := rg.src != src
	if uint64(all) <= r.size && rg.unread+count <= rg.cap && rg.w.Fits(vni.RingRunNeeds(2*count+all, fresh)) {
		return count, all
	}
	room := rg.w.Room()
	for n < min(count, rg.cap-rg.unread) {
		k := lengths.At(n)
		if uint64(k) > r.size || vni.RingRunNeeds(2*(n+1)+bytes+k, fresh) > room {
			break
		}
		n, bytes = n+1, bytes+k
	}
	return n, bytes
}

// giveBackCredit calls restoreCredit for messages that go to a receive at once.
func (e *Engine) giveBackCredit(src *source, cost uint64, r *receive) {
	if e.cfg.Defect == mutate.RingCreditKept && r.ring != nil {
		return
	}
	e.restoreCredit(src, cost)
}
