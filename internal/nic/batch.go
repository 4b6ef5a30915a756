package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A receive into a batch stays posted, in its place, while messages that come whole find room in it. So a stream of short ones
// costs its receiver no posting and no doorbell for each (USNIC-28). What does not go in so ends it, or finds it empty and is
// received by it like any other message:
//
//	                         the batch is empty            it has messages
//	comes whole, has room    goes in, stays posted         goes in, stays posted
//	else                     matched with all of Buf       the receive ends; the next one may match

// packs reports whether a message of n bytes goes into r's batch. whole: all its bytes are at hand.
func (r *receive) packs(n uint64, whole bool) bool {
	return r.batch != nil && whole && n <= uint64(len(r.batch.Buf)) && r.batch.Fits(int(n))
}

// full reports whether r takes messages into a batch, has some, and will not take this one.
func (r *receive) full(n uint64, whole bool) bool {
	return r.batch != nil && len(r.batch.Items) > 0 && !r.packs(n, whole)
}

// findReceive is findPosted past the batches that have no room for the message, which end.
func (e *Engine) findReceive(src *source, env *wire.Envelope, n uint64, whole bool) *receive {
	for {
		r := src.p.findPosted(src, env)
		if r == nil || !r.full(n, whole) {
			return r
		}
		if e.cfg.Defect == mutate.BatchPassedOver {
			return nil
		}
		e.finishReceive(r, &vni.Completion{})
	}
}

// whole reports whether all bytes of a message are at hand: here, or short and with a process of this NIC.
func (inb *inbound) whole() bool {
	return inb.done && !inb.cut() || inb.kind == inboundLocal && inb.length <= limits.EagerMessage && inb.local != nil && inb.local.refill == nil
}

// pack makes room for a message in r's batch, and tells the process of it. The caller fills it, before anybody else runs.
func (e *Engine) pack(r *receive, src *source, env *wire.Envelope, n int) []byte {
	e.packing(r, src, 1)
	return r.batch.Add(n, uint64(n), env.Tag, env.Token)
}

// packing counts n messages that go into r's batch next, and tells the process of them.
func (e *Engine) packing(r *receive, src *source, n int) {
	if len(r.batch.Items) == 0 {
		r.wanted.Notice()
	}
	e.counts[vni.NICPacked] += uint64(n)
	e.served = true
	if r.p.wakeUp != nil {
		e.ring(r.p)
	}
	from(r.batch, src)
}

// from notes whose the next message of a batch is.
func from(b *vni.Batch, src *source) {
	if k := len(b.Sources); k == 0 || b.Sources[k-1].Entry != src {
		b.Sources = append(b.Sources, vni.BatchSource{From: src.name, NIC: src.nic, Slot: src.key.slot, Gen: src.key.gen, Entry: src})
	}
}

// packInbound takes a message whose turn it is into r's batch, if it goes in.
func (e *Engine) packInbound(r *receive, inb *inbound) bool {
	if !r.packs(inb.length, inb.whole()) {
		return false
	}
	s := inb.local
	if inb.kind != inboundLocal {
		e.accept(inb, r)
		s = nil
	}
	if !inb.counted {
		e.countReceived(r.p, 1, inb.length)
	}
	room := e.pack(r, inb.src, &inb.env, int(inb.length))
	if s == nil {
		copy(room, inb.staging)
	} else {
		copyOut(room, s.frag.Parts)
		inb.local = nil
	}
	e.freeInbound(inb)
	if s != nil {
		e.completeSend(s, vni.StatusOK)
	}
	return true
}

// Swap gives the caller what a posted receive has taken in, and the receive goes on with an empty batch. nil: it has taken
// nothing, or is not posted.
func (s *Straight) Swap(w *vni.StraightReceive, empty *vni.Batch) (taken *vni.Batch) {
	r, ok := w.Entry.(*receive)
	if !ok || r.wanted != w || r.batch == nil || len(r.batch.Items) == 0 {
		return nil
	}
	taken = r.batch
	empty.Reset()
	r.batch, w.Batch, w.Buf = empty, empty, empty.Buf
	r.size, r.parts = uint64(len(empty.Buf)), append(r.space[:0], empty.Buf)
	w.Unnoticed()
	return taken
}

// Return has the messages of batches that nobody has looked at wait for receives again, before all that has come since: of
// the first batch those from number first on, then those of the others, then the one that w has met and that is on its
// way. w, which takes into the last of them, is withdrawn in the same moment, so that nobody gets a later message before
// them.
func (s *Straight) Return(now clock.Time, w *vni.StraightReceive, first int, batches ...*vni.Batch) {
	e, p := s.e, s.p
	e.catchUp()
	e.now = max(e.now, now)
	var back []*inbound
	if !p.served() {
		return
	}
	for _, b := range batches {
		for ; first < len(b.Items) && e.cfg.Defect != mutate.BatchNotReturned; first++ {
			back = append(back, e.putBack(p, b, first))
		}
		first = 0
	}
	if r, ok := w.Entry.(*receive); ok && r.wanted == w {
		e.counts[vni.NICCancels]++
		if r.state == recvMatched {
			back = append(back, e.unbind(r))
		}
		e.finishReceive(r, &vni.Completion{Status: vni.StatusCancelled})
	}
	for inb := p.stray.front(); inb != nil; inb = p.stray.front() {
		p.stray.remove(inb)
		back = append(back, inb)
	}
	for _, inb := range back {
		p.stray.add(inb)
	}
	e.meet(p)
}

// unbind takes the message back that a receive into a batch has met. What has come of it, and what still comes, has memory
// of its own then. Its sender, if it is of this NIC, describes nothing piece by piece: processes with batches are direct,
// and all of a NIC are of one kind.
func (e *Engine) unbind(r *receive) *inbound {
	inb := r.inb
	if s := inb.local; s != nil { // it begins again: nothing was promised
		s.node.remove()
		s.state = sendLocal
		s.frag.Next = 0
	} else {
		kept := min(inb.length, uint64(len(r.batch.Buf)))
		if inb.foreign { // for the second time
			kept = min(kept, inb.kept)
		}
		inb.foreign, inb.kept = true, kept
		inb.staging = slices.Clone(r.batch.Buf[:kept])
	}
	inb.recv, inb.parts, r.inb = nil, nil, nil
	inb.at = e.now
	return inb
}

// putBack makes message i of a batch one that has come and waits for a receive. It takes of its process's staging if there is
// room, as it would if nobody had asked for it.
func (e *Engine) putBack(p *process, b *vni.Batch, i int) *inbound {
	it := &b.Items[i]
	src := b.Sources[it.Source].Entry.(*source)
	env := wire.Envelope{DstSlot: p.slot, DstGen: p.gen, SrcSlot: src.key.slot, SrcGen: src.key.gen, Tag: it.Tag, Token: it.Token}
	inb := e.newInbound(src, &env, inboundStaged, it.Full)
	inb.done, inb.accepted, inb.counted = true, true, true
	inb.got, inb.kept, inb.at = inb.length, uint64(it.Len), e.now
	cost := int(stagedCost(inb.length))
	if inb.foreign = inb.kept < inb.length || cost > e.stagingLeft(p); inb.foreign {
		inb.staging = slices.Clone(b.Payload(i))
	} else {
		inb.charged = cost
		p.staged += cost
		inb.staging = e.staging.take(int(it.Len))
		copy(inb.staging, b.Payload(i))
	}
	e.counts[vni.NICReturned]++
	return inb
}

// goOn ends a receive from a name, as one that had been posted all the time, if the process that bore the name when its
// batch took the last message has ended, and nobody bears it now.
func (e *Engine) goOn(r *receive, last destKey) {
	if n := e.names.find(&r.sender); n != nil && n.live() {
		return
	}
	ended, at := e.ended(last)
	if pr := e.peerOf(last.nic); pr != nil && !pr.ep.Up() { // its NIC has gone with it
		ended = true
	}
	if ended {
		e.doom(r, at)
	}
}

// cut reports whether a message was put back of which only the beginning had been kept.
func (inb *inbound) cut() bool { return inb.foreign && inb.kept < inb.length }

// meet has every posted receive look again at what waits.
func (e *Engine) meet(p *process) {
	for n := p.posted.head; n != nil; {
		r := n.v
		n = n.next
		if p.stray.find(e, r) != nil {
			e.takeMatch(r)
			e.post(r)
		}
	}
}
