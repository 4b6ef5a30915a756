package nic

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/freelist"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A receive into a ring (vni.RingWriter) stays posted, in its place, and takes message after
// message. So a short message of a stream costs its receiver no command, no completion and no
// posting (USNIC-28).
//
//	arrives whole, fits            goes into the ring at once
//	is still arriving, fits        gets a place in the ring, which its bytes fill (ringplace.go)
//	does not fit                   waits as if nothing were posted, and the ring stands aside. The
//	                               process is asked for a Refill, which posts the ring again. The
//	                               ring then takes the waiting messages first
//
// Messages in the ring count as received. But when the ring is cancelled, those that were not read
// go back and wait for receives again.
type msgRing struct {
	w      vni.RingWriter
	src    *source // of the last message
	notes  []note  // of the records that were not read, as far as is known, from first on
	first  int
	unread int          // messages of the notes
	cap    int          // most unread messages
	bytes  int          // of the process's quota
	fresh  bool         // it is in process.fresh
	coming []*ringPlace // places of the messages on their way into it, in their order
	places freelist.List[ringPlace]
	early  bool // test hook: everything is shown, whether it has arrived or not
}

// note is what the NIC remembers of a record, so that it need not trust the contents of the ring.
type note struct {
	src   *source
	tag   uint64
	full  uint64 // bytes of the message
	end   uint64 // the ring's position after it
	at    uint32 // in the ring: offset of the bytes
	size  uint32 // number of the bytes
	count int32  // messages of a run; 0 is a single message
	token uint32
	place *ringPlace // the message has not arrived yet
}

func (n *note) messages() int { return max(int(n.count), 1) }

// startRing checks a ReceiveRing command, a receive whose memory is a ring, and makes the ring.
func (e *Engine) startRing(p *process, r *receive, c *vni.ReceiveContext) error {
	r.size = c.Most
	if c.Flags&(vni.IsReply|vni.Refilled) != 0 || len(r.parts) != 1 || c.Most > vni.MaxRingMessage ||
		c.Len%64 != 0 || int(c.Len) < vni.RingSize(int(c.Most)) || !r.notify {
		return fmt.Errorf("%w: a ring of %d bytes in %d pieces for messages of %d, flags %#x", vni.ErrArgument,
			c.Len, len(r.parts), c.Most, c.Flags)
	}
	rg := &msgRing{w: p.vni.Ring(r.ctx, r.parts[0]), cap: int(c.Len) / limits.StagedOverhead}
	if p.vni.Direct(true, r.ctx) == nil {
		if rg.bytes = int(c.Len); p.rings+rg.bytes > limits.RingBytes {
			return errNoMemory
		}
		p.rings += rg.bytes
	}
	if e.cfg.Defect == mutate.RingBelieved {
		rg.w.Believe()
	}
	rg.early = e.cfg.Defect == mutate.RingShownEarly
	r.ring, p.ringed = rg, append(p.ringed, r)
	return nil
}

// endRing releases a ring. Its process sees all messages in it before it sees the end.
func (e *Engine) endRing(r *receive) {
	rg := r.ring
	r.p.rings -= rg.bytes
	rg.show()
	r.ring, r.p.ringed = nil, slices.DeleteFunc(r.p.ringed, func(o *receive) bool { return o == r })
	r.p.fresh = slices.DeleteFunc(r.p.fresh, func(o *msgRing) bool { return o == rg })
}

// findReceive is findPosted, except that it sets aside rings without room for a message of n
// bytes. whole says that all of the message is at hand.
func (e *Engine) findReceive(src *source, env *wire.Envelope, n uint64, whole bool) *receive {
	for {
		r := src.p.findPosted(src, env)
		if r == nil || r.ring == nil || e.fits(r, src, n, whole) {
			return r
		}
		if !src.p.served() {
			return nil
		}
		if e.cfg.Defect == mutate.RingPassedOver {
			return nil
		}
		e.setAside(r)
	}
}

// setAside takes a ring without room from the posted receives.
func (e *Engine) setAside(r *receive) {
	r.node.remove()
	r.state = recvAside
	e.watchSender(r) // it may never have been posted
	e.counts[vni.NICStalls]++
	e.ring(r.p)
}

// fits reports whether a message fits r's ring. If not, the process has been told. Or, if a
// message is on its way into the ring, the ring is looked at again when it has arrived: the
// process could not read what lies after it before.
func (e *Engine) fits(r *receive, src *source, n uint64, whole bool) bool {
	rg := r.ring
	if !whole && len(rg.coming) == limits.RingPlaces {
		return false
	}
	need := rg.needs(src, min(n, r.size), !whole || n > r.size)
	if rg.has(need) || rg.look() == nil && rg.has(need) {
		return true
	}
	if len(rg.coming) > 0 {
		return false
	}
	rg.w.Stall()
	if err := rg.look(); err != nil {
		e.detach(r.p, err)
		return false
	}
	return rg.has(need)
}

func (rg *msgRing) needs(src *source, n uint64, full bool) int {
	return vni.RingNeeds(int(n), rg.src != src, full)
}

func (rg *msgRing) has(n int) bool { return rg.unread < rg.cap && rg.w.Fits(n) }

// look reads how much the process has read.
func (rg *msgRing) look() error {
	if err := rg.w.Look(); err != nil {
		return err
	}
	for ; rg.first < len(rg.notes); rg.first++ {
		n := &rg.notes[rg.first]
		if int64(rg.w.Read()-n.end) < 0 {
			break
		}
		rg.unread -= n.messages()
	}
	switch {
	case rg.first == len(rg.notes):
		rg.notes, rg.first = rg.notes[:0], 0
	case rg.first > len(rg.notes)/2:
		rg.notes, rg.first = slices.Delete(rg.notes, 0, rg.first), 0
	}
	return nil
}

// record begins a record in b with a message of src. It returns the place after the description of
// the sender.
func (rg *msgRing) record(src *source, b []byte) []byte {
	if rg.src != src {
		rg.src = src
		b = vni.PutRingSource(b, src.whole())
	}
	return b
}

// add ends a record of n bytes, of which data holds the sender's bytes.
func (e *Engine) add(r *receive, n int, data []byte, k note) {
	rg := r.ring
	rg.note(n, data, k)
	e.counts[vni.NICPacked] += uint64(k.messages())
	e.early.served = true
	if len(rg.coming) == 0 {
		e.came(r)
	}
}

// note ends a record of n bytes.
func (rg *msgRing) note(n int, data []byte, k note) {
	k.src, k.at, k.size = rg.src, uint32(rg.w.Offset()+n-cap(data)), uint32(len(data))
	rg.w.Advance(n)
	k.end = rg.w.Position()
	rg.notes = append(rg.notes, k)
	rg.unread += k.messages()
}

// came notes that r's ring has more that its process may be shown.
func (e *Engine) came(r *receive) {
	rg := r.ring
	if rg.w.Unpublished() >= limits.RingShown {
		rg.show()
	} else if !rg.fresh {
		rg.fresh = true
		r.p.fresh = append(r.p.fresh, rg)
	}
	if e.cfg.Defect != mutate.RingReaderAsleep || e.rng.IntN(20) > 0 {
		e.ring(r.p)
	}
}

// publish shows a process the new messages in its rings.
func (p *process) publish() {
	for i, rg := range p.fresh {
		p.fresh[i], rg.fresh = nil, false
		rg.show()
	}
	p.fresh = p.fresh[:0]
}

// show publishes the messages up to the first one that has not arrived. An impossible word of the
// process is detected when it matters.
func (rg *msgRing) show() {
	upTo := rg.w.Position()
	if len(rg.coming) > 0 && !rg.early {
		upTo = rg.coming[0].from
	}
	if rg.w.PublishTo(upTo) {
		_ = rg.look()
	}
}

// pack puts a message that is at hand, in pieces, into r's ring. The record must be complete
// before add, which may show it.
func (e *Engine) pack(r *receive, src *source, env *wire.Envelope, length uint64, pieces ...[]byte) {
	rg, n := r.ring, int(min(length, r.size))
	need := rg.needs(src, uint64(n), length > r.size)
	b := rg.record(src, rg.w.Place(need))
	var data []byte
	if length > r.size {
		data = vni.PutRingWhole(b, env.Tag, env.Token, n, length)
		e.counts[vni.NICTruncated]++
		r.p.account.Truncated++
	} else {
		data = vni.PutRingMessage(b, env.Tag, env.Token, n)
	}
	rest := data
	for _, piece := range pieces {
		rest = rest[copy(rest, piece):]
	}
	e.counts[vni.NICCopiedIn] += uint64(n)
	e.add(r, need, data, note{tag: env.Tag, token: env.Token, full: length})
}

// packInbound puts a message whose turn it is into r's ring, if all of it is at hand.
func (e *Engine) packInbound(r *receive, inb *inbound) bool {
	if r.ring == nil || !inb.whole() {
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
	if s == nil {
		e.pack(r, inb.src, &inb.env, inb.length, inb.staging)
	} else {
		e.pack(r, inb.src, &inb.env, inb.length, s.frag.Parts...)
		inb.local = nil
	}
	e.freeInbound(inb)
	if s != nil {
		status := vni.StatusOK
		if s.accept && inb.length > r.size {
			status = vni.StatusTruncated
		}
		e.completeSend(s, status)
	}
	return true
}

// whole reports whether all bytes of a message are at hand: in this NIC, or short and in a process
// of this NIC.
func (inb *inbound) whole() bool {
	return inb.done && !inb.cut() ||
		inb.kind == inboundLocal && inb.length <= limits.StagedMessage && inb.local != nil && inb.local.refill == nil
}

// again posts a ring that was aside.
func (e *Engine) again(r *receive) {
	if r.recall {
		e.closeRing(r)
		return
	}
	e.post(r)
}

// resumeRing executes a Refill of a ring: its process has read.
func (e *Engine) resumeRing(r *receive) {
	e.counts[vni.NICRefills]++
	e.ring(r.p) // others may wait for room in the command queue
	if r.state == recvAside && e.cfg.Defect != mutate.RingLeftAside {
		e.again(r)
	}
}

// closeRing cancels a ring. The messages that were not read, and those on their way into it, wait
// for receives again, before all later ones. It does so in one step, so that no later message
// overtakes them.
func (e *Engine) closeRing(r *receive) {
	p, rg := r.p, r.ring
	if rg.stuck() != nil { // it cannot start again
		r.node.remove()
		r.watch.Off()
		r.state, r.recall = recvAside, true
		e.expiry.recall(r, e.now)
		return
	}
	r.recalled.remove() // if the ring has waited for its message, that has arrived or will not
	if err := rg.look(); err != nil {
		e.detach(p, err)
		return
	}
	back, err := e.unread(p, rg)
	if err != nil {
		for _, inb := range back {
			if inb.recv == nil {
				e.freeInbound(inb)
			}
		}
		e.detach(p, err)
		return
	}
	for _, inb := range back {
		if inb.recv != nil {
			e.unbind(inb)
		}
	}
	e.finishReceive(r, &vni.Completion{Status: vni.StatusCancelled})
	for inb := p.stray.front(); inb != nil; inb = p.stray.front() {
		p.stray.remove(inb)
		back = append(back, inb)
	}
	for _, inb := range back {
		p.stray.add(inb)
	}
	e.meet(p)
	e.tellProbes(p)
}

var errNotOfTheRun = errors.New("more messages of a run were read than it has")

// unread makes inbounds of the messages in a ring that were not read. Messages that have not
// arrived are among them, and keep their places for now.
func (e *Engine) unread(p *process, rg *msgRing) (back []*inbound, err error) {
	notes := rg.notes[rg.first:]
	if len(notes) == 0 {
		return nil, nil
	}
	read := int(rg.w.Partial())
	if read > 0 && read >= notes[0].messages() {
		return nil, fmt.Errorf("%w: %w: %d of %d", vni.ErrImpossible, errNotOfTheRun, read, notes[0].messages())
	}
	for i := range notes {
		n := &notes[i]
		if n.place != nil {
			back = append(back, n.place.inb)
			continue
		}
		if e.cfg.Defect == mutate.RingNotReturned {
			continue
		}
		data := rg.w.Bytes(int(n.at), int(n.size))
		if n.count == 0 {
			back = append(back, e.putBack(p, n, data, n.full))
			continue
		}
		// Once: the process can still write them.
		lengths := wire.Lengths(slices.Clone(data[:2*n.count]))
		data = data[2*n.count:]
		for k := range int(n.count) {
			size := lengths.At(k)
			if size > len(data) {
				return back, fmt.Errorf("%w: a message of %d bytes in a ring, where %d are", vni.ErrImpossible,
					size, len(data))
			}
			if k >= read {
				back = append(back, e.putBack(p, n, data[:size], uint64(size)))
			}
			data = data[size:]
		}
		read = 0
	}
	return back, nil
}

// putBack makes a message wait for a receive again. It is charged to its process's staging if
// there is room, like an unexpected message; else to the process's quota for rings.
func (e *Engine) putBack(p *process, n *note, data []byte, full uint64) *inbound {
	env := wire.Envelope{DstSlot: p.slot, DstGen: p.gen, SrcSlot: n.src.key.slot, SrcGen: n.src.key.gen,
		Tag: n.tag, Token: n.token}
	inb := e.newInbound(n.src, &env, inboundStaged, full)
	inb.done, inb.accepted, inb.counted = true, true, true
	inb.got, inb.kept, inb.at = inb.length, uint64(len(data)), e.now
	cost := int(stagedCost(inb.length))
	if inb.kept < inb.length || cost > e.stagingLeft(p) {
		inb.lodge(slices.Clone(data))
	} else {
		inb.charged = cost
		p.staged += cost
		inb.staging = e.staging.take(len(data))
		copy(inb.staging, data)
		e.counts[vni.NICCopiedIn] += uint64(len(data))
	}
	e.counts[vni.NICReturned]++
	return inb
}

// lodge gives an inbound separate memory.
func (inb *inbound) lodge(mem []byte) {
	inb.foreign, inb.staging = true, mem
	inb.src.p.rings += lodging(mem)
}

// lodging returns what an inbound is charged for that memory.
func lodging(mem []byte) int { return len(mem) + limits.StagedOverhead }

// unbind takes back a message that is on its way into a ring. Its bytes, those still to come too,
// then have separate memory.
func (e *Engine) unbind(inb *inbound) {
	if s := inb.local; s != nil { // it starts again: nothing was promised
		s.node.remove()
		s.state = sendLocal
		s.frag.Next = 0
	} else {
		kept := uint64(len(inb.parts[0]))
		if inb.foreign { // for the second time
			kept = min(kept, inb.kept)
		}
		inb.kept = kept
		inb.lodge(slices.Clone(inb.parts[0][:kept]))
	}
	inb.recv, inb.parts = nil, nil
	inb.at = e.now
}

// cut reports whether a message was put back of which only the beginning had been kept.
func (inb *inbound) cut() bool { return inb.foreign && inb.kept < inb.length }

// here returns how many bytes of a message there are, or will be when all have arrived.
func (inb *inbound) here() uint64 {
	if inb.done && inb.cut() {
		return inb.kept
	}
	return inb.length
}

// meet makes every posted receive look again at the waiting messages.
func (e *Engine) meet(p *process) {
	for n := p.posted.head; n != nil; {
		r := n.v
		n = n.next
		if p.stray.find(e, r) != nil {
			r.node.remove()
			r.watch.Off()
			e.post(r)
		}
	}
}

// auditRings checks the bytes of rings and of messages put back against the process's count.
func (p *process) auditRings() error {
	sum := 0
	for _, r := range p.ringed {
		rg := r.ring
		messages, coming := 0, 0
		for i := range rg.notes[rg.first:] {
			n := &rg.notes[rg.first+i]
			if messages += n.messages(); n.place != nil {
				coming++
			}
		}
		if sum += rg.bytes; !rg.w.Sound() || messages != rg.unread || coming != len(rg.coming) {
			return fmt.Errorf(
				"a ring of %v at %d, read to %d, has notes of %d messages, counted as %d, of which %d are to come, "+
					"counted as %d",
				p, rg.w.Position(), rg.w.Read(), messages, rg.unread, coming, len(rg.coming))
		}
	}
	for n := p.stray.head; n != nil; n = n.next {
		if n.v.foreign {
			sum += lodging(n.v.staging)
		}
	}
	for r := range p.receives {
		if r.state == recvMatched && r.inb.foreign && r.inb.staging != nil {
			sum += lodging(r.inb.staging)
		}
	}
	if sum != p.rings {
		return fmt.Errorf("%v has %d bytes in rings and put back, counted as %d", p, sum, p.rings)
	}
	return nil
}
