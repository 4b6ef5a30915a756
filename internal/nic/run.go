package nic

import (
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A run is what many messages of one process to one other share a record by. Where all that is asked of a message has one
// answer for all of them, it is asked once, and they go into the receiver's batch in one piece:
//
//	all in order, nothing parked, credit for all,     ──► as many as have room, at one go ─┐
//	and the first goes into the batch of a receive                                         │ the rest
//	else ──────────────────────────────────────────────────────────────────────────────────┴──► one by one, as Frags
//
// So whoever receives cannot tell a run from so many Frags.

// run takes a run of whole short messages.
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
	for i := first; i < lengths.Count() && src.p.served(); i++ {
		n := lengths.At(i)
		one := env
		one.Number += uint32(i)
		e.fragOf(src, &one, data[at:at+n])
		at += n
	}
}

// packRun takes as many messages of a run as go into a batch at one go, and returns how many those are, and of how many bytes;
// 0 if the first does not.
func (e *Engine) packRun(src *source, env *wire.Envelope, lengths wire.Lengths, data []byte) (n, bytes int) {
	if src.early.n > 0 || !e.inOrder(src, env.Number) || !src.fresh(env.Number) {
		return 0, 0
	}
	k := uint64(lengths.At(0))
	rc := e.findReceive(src, env, k, true)
	if rc == nil || !rc.packs(k, true) {
		return 0, 0
	}
	n, bytes = fitting(rc.batch, lengths, len(data))
	cost := stagedCosts(n, bytes)
	if !src.credit.spend(e.now, cost) {
		return 0, 0
	}
	e.restoreCredit(src, cost)
	e.countReceived(src.p, uint64(n), uint64(bytes))
	e.packing(rc, src, n)
	items, at, room := rc.batch.Grow(n, bytes)
	source := uint32(len(rc.batch.Sources) - 1)
	for i := range items {
		k, it := uint32(lengths.At(i)), &items[i]
		it.Tag, it.Full, it.At, it.Len, it.Token, it.Source = env.Tag, uint64(k), at, k, 0, source
		at += k
	}
	copy(room, data)
	src.expected += uint32(n)
	return n, bytes
}

// fitting is how many messages of a run, the first of which does, find room in a batch, and of how many bytes.
func fitting(b *vni.Batch, lengths wire.Lengths, all int) (n, bytes int) {
	messages, room := b.Free()
	if lengths.Count() <= messages && all <= room {
		return lengths.Count(), all
	}
	for n < min(messages, lengths.Count()) && bytes+lengths.At(n) <= room {
		bytes += lengths.At(n)
		n++
	}
	return n, bytes
}
