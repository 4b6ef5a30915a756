package nic

import (
	"slices"
	"sort"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A message that has not arrived completely when it meets a ring gets a place there at once, and
// the ring stays posted. Later messages go into the ring after that place; a long one gets its own
// place. So several long messages are in flight at once, and the next is permitted while the one
// before it arrives.
//
//	consumed           produced
//	    ▼                  ▼
//	│   │ message │ message │ to come │ message │ to come │ free │
//
// The process is shown the messages in their order: none that lies after one that has not arrived.
// If a message will not come, since it was withdrawn or its NIC was lost, its place becomes a void
// record.

// ringPlace is the place of such a message, which sees it as a receive.
type ringPlace struct {
	receive
	of     *receive // the receive with the ring
	record []byte   // without the description of the sender
	from   uint64   // the ring's position at the start of the record, description included
	end    uint64   // the ring's position after the record
}

// reserve returns the place in r's ring for a message that r has met.
func (e *Engine) reserve(r *receive, inb *inbound) *receive {
	rg, n := r.ring, min(inb.here(), r.size)
	pl := rg.places.Take()
	need := rg.needs(inb.src, n, true)
	b := rg.w.Place(need)
	pl.from, pl.end, pl.of = rg.w.Position(), rg.w.Position()+uint64(need), r
	pl.record = rg.record(inb.src, b)
	data := vni.PutRingWhole(pl.record, inb.env.Tag, inb.env.Token, int(n), inb.length)
	pl.receive = receive{p: r.p, ctx: r.ctx, size: r.size, place: pl}
	pl.parts = append(pl.space[:0], data)
	rg.note(need, data, note{tag: inb.env.Tag, token: inb.env.Token, full: inb.length, place: pl})
	rg.coming = append(rg.coming, pl)
	if rg.early {
		e.came(r)
	}
	return &pl.receive
}

// noteOf returns the index of the note of a place.
func (rg *msgRing) noteOf(pl *ringPlace) int {
	notes := rg.notes[rg.first:]
	return rg.first + sort.Search(len(notes), func(i int) bool { return int64(notes[i].end-pl.end) >= 0 })
}

// completePlace notes that the message of a place has arrived, with n bytes.
func (e *Engine) completePlace(pl *ringPlace, env *wire.Envelope, n, length uint64) {
	rg := pl.of.ring
	k := &rg.notes[rg.noteOf(pl)]
	k.place = nil
	if n < uint64(k.size) { // it was put back once, and no more was kept
		k.size = uint32(n)
		k.end -= uint64(vni.PutRingLess(pl.record, env.Tag, env.Token, int(n), length))
	}
	e.counts[vni.NICPacked]++
	e.early.served = true
	e.leavePlace(pl)
}

// leaveEmpty ends a place whose message will not come.
func (e *Engine) leaveEmpty(pl *ringPlace) {
	rg := pl.of.ring
	if e.cfg.Defect != mutate.RingHoleShown {
		vni.PutRingVoid(pl.record)
	}
	i := rg.noteOf(pl)
	rg.notes = slices.Delete(rg.notes, i, i+1)
	rg.unread--
	e.leavePlace(pl)
}

// leavePlace continues a ring after a place has ended. Messages after the place may be shown now,
// and there may be room.
func (e *Engine) leavePlace(pl *ringPlace) {
	r, rg := pl.of, pl.of.ring
	i := slices.Index(rg.coming, pl)
	rg.coming = slices.Delete(rg.coming, i, i+1)
	pl.inb, pl.parts, pl.record = nil, nil, nil
	forget(pl.space[:])
	rg.places.Give(pl)
	if i == 0 {
		e.came(r)
	}
	switch {
	case r.recall, r.state == recvAside:
		e.again(r)
	case r.state == recvPosted && r.orphan != vni.StatusOK && len(rg.coming) == 0:
		e.endReceive(r, r.orphan)
	}
}

// coming reports whether messages are on their way into r's ring, if it has one.
func (r *receive) coming() bool { return r.ring != nil && len(r.ring.coming) > 0 }

// stuck returns the place of a message that cannot start again, or nil. It is a message of this
// NIC whose sender has got some of its memory back.
func (rg *msgRing) stuck() *ringPlace {
	for _, pl := range rg.coming {
		if s := pl.inb.local; s != nil && s.refill != nil && s.refill.consumed > 0 {
			return pl
		}
	}
	return nil
}

// endStuck ends the messages of a ring that cannot start again and have not arrived in time. The
// cancelled ring ends with the last of them.
func (e *Engine) endStuck(r *receive) {
	for r.ring != nil {
		pl := r.ring.stuck()
		if pl == nil {
			return
		}
		e.refuseInbound(pl.inb, wire.ReasonCancelled)
		e.leaveEmpty(pl)
	}
}

// dropComing refuses the messages on their way into the ring of a process that leaves.
func (e *Engine) dropComing(rg *msgRing) {
	for _, pl := range rg.coming {
		e.refuseInbound(pl.inb, wire.ReasonProcessGone)
	}
}
