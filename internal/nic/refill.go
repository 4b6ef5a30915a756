package nic

import (
	"fmt"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A refill is the memory of an operation that has more pieces than a context region holds, or
// whose process does not want to hold all of it at once (QNIX-22; QNIX-24 needed two transfers
// here, decision 5 one). It is a stretch: the process describes more at one end, and it moves on
// at the other end as bytes are acknowledged or arrive.
//
//	│ consumed      │ parts: taken, not consumed  │ not described   │
//	├───────────────┼─────────┬─────────┬─────────┼─────────────────┤
//	0              base                          end               size
//
// A send posts up to end, and says that so much is ready. A receive permits up to end, and then
// waits for a Refill. A descriptor is loaded from shared memory once; the NIC does not see what
// the process writes into its region afterwards.
//
// Pieces of a message arrive and are acknowledged in any order, each once. So each part counts the
// bytes that it still waits for. It is consumed when it waits for none and the parts before it are
// consumed. The descriptor map of QNIX-46 is no table here: a piece has its offset in the message,
// and is scattered from there over the parts, whatever their lengths.
type refill struct {
	p       *process
	receive bool
	writes  bool // the NIC writes to the parts: a receive or a GET
	ctx     int

	space [][]byte // K of them; the first n are the parts
	left  []uint64 // by part: bytes that it still waits for
	n     int

	base, end, size uint64
	taken, consumed uint32 // descriptors, of this operation
	told            uint32 // consumed descriptors that the process has been told of

	permitted uint64 // of a send: by its receiver
	announced uint64 // of a send: ready bytes that its receiver has been told of
	// Of a receive that has met its message: a later descriptor was wrong, so no more is kept.
	broken vni.Status
}

// newRefill begins the stretch of an operation of size bytes. At least one descriptor must be
// filled: a GET asks for at least one byte.
func (e *Engine) newRefill(p *process, receive, writes bool, ctx int, size uint64) (*refill, error) {
	rf := e.refills.Take()
	k := p.vni.Segment().Geometry().Descriptors
	if len(rf.space) < k {
		rf.space, rf.left = make([][]byte, k), make([]uint64, k)
	}
	*rf = refill{p: p, receive: receive, writes: writes, ctx: ctx, space: rf.space[:k], left: rf.left[:k], size: size}
	err := rf.extend()
	if err == nil && rf.end == 0 {
		err = fmt.Errorf("%w: no descriptor is filled", vni.ErrArgument)
	}
	if err != nil {
		e.freeRefill(rf)
		return nil, err
	}
	return rf, nil
}

func (e *Engine) freeRefill(rf *refill) {
	if rf != nil {
		clear(rf.space)
		e.refills.Give(rf)
	}
}

// parts returns the memory of the bytes from base to end.
func (rf *refill) parts() [][]byte { return rf.space[:rf.n] }

// complete reports whether no more will be described.
func (rf *refill) complete() bool { return rf.end == rf.size || rf.broken != vni.StatusOK }

// extend takes the descriptors that the process has filled.
func (rf *refill) extend() error {
	for rf.end < rf.size && rf.n < len(rf.space) {
		d, ok, err := rf.p.vni.Descriptor(rf.receive, rf.ctx, rf.taken)
		if err != nil || !ok {
			return err
		}
		if d.Len > rf.size-rf.end {
			return fmt.Errorf("%w: descriptor %d ends at byte %d of %d", vni.ErrArgument, rf.taken,
				rf.end+d.Len, rf.size)
		}
		mem, err := rf.p.region(d.Region, d.Offset, d.Len, rf.writes)
		if err != nil {
			return err
		}
		rf.space[rf.n], rf.left[rf.n] = mem, d.Len
		rf.n++
		rf.taken++
		rf.end += d.Len
		rf.p.vni.Took(rf.receive, rf.ctx) // and then look once more; vni.Descriptor says why
	}
	return nil
}

// over notes that n bytes from offset on are done, and moves the stretch past the parts that are
// done completely.
func (e *Engine) over(rf *refill, offset, n uint64) {
	at := rf.base
	for i := 0; i < rf.n && n > 0; i++ {
		end := at + uint64(len(rf.space[i]))
		if offset < end {
			c := min(end-offset, n)
			rf.left[i] -= min(c, rf.left[i])
			offset, n = offset+c, n-c
		}
		at = end
	}
	k := 0
	for ; k < rf.n && rf.left[k] == 0; k++ {
		rf.base += uint64(len(rf.space[k]))
		rf.consumed++
	}
	if k == 0 {
		return
	}
	copy(rf.space, rf.space[k:rf.n])
	copy(rf.left, rf.left[k:rf.n])
	clear(rf.space[rf.n-k : rf.n])
	rf.n -= k
	e.tellConsumed(rf, rf.consumed)
}

// tellConsumed tells the process that its first count descriptors are consumed.
func (e *Engine) tellConsumed(rf *refill, count uint32) {
	for ; rf.told < count; rf.told++ {
		rf.p.vni.Consume(rf.receive, rf.ctx, rf.told)
		e.ring(rf.p)
	}
}

// tellTooEarly is a defect: it tells the process that descriptors are consumed which are only
// posted.
func (e *Engine) tellTooEarly(rf *refill, posted uint64) {
	if e.cfg.Defect != mutate.ConsumedEarly {
		return
	}
	count, at := rf.consumed, rf.base
	for _, b := range rf.parts() {
		if at += uint64(len(b)); at <= posted {
			count++
		}
	}
	e.tellConsumed(rf, count)
}

// placeRefilled puts a piece of a message into its place in the stretch. Bytes before the stretch
// came twice, by a fault of the peer.
func (e *Engine) placeRefilled(rf *refill, offset uint64, piece []byte) {
	if offset < rf.base {
		piece = piece[min(rf.base-offset, uint64(len(piece))):]
		offset = rf.base
	}
	e.scatter(rf.parts(), offset-rf.base, piece)
	e.over(rf, offset, uint64(len(piece)))
}

// restart makes the stretch ready for another message. It returns false if part of it is consumed,
// and so may be in other use.
func (rf *refill) restart() (ok bool) {
	if rf.consumed > 0 {
		return false
	}
	for i, b := range rf.parts() {
		rf.left[i] = uint64(len(b))
	}
	return true
}

// refillCommand executes a Refill: the operation of a context may continue where it waits for
// descriptors. A Refill of an operation that has ended is ignored.
func (e *Engine) refillCommand(p *process, ctx int, which uint32) {
	switch {
	case which == vni.CancelReceive && ctx < len(p.recvs):
		switch r := &p.recvs[ctx]; {
		case r.state == recvIdle:
		case r.ring != nil:
			e.resumeRing(r)
		case r.refill != nil:
			e.refillReceive(r)
		}
	case which == vni.CancelSend && ctx < len(p.sends):
		if s := &p.sends[ctx]; s.state != sendIdle && s.refill != nil {
			e.refillSend(s)
		}
	default:
		e.detach(p, fmt.Errorf("refill names context %d of list %d", ctx, which))
	}
}

// refillSend extends what a send may post, or what a GET may permit.
func (e *Engine) refillSend(s *send) {
	e.counts[vni.NICRefills]++
	if err := s.refill.extend(); err != nil {
		e.giveUp(s, wire.ReasonCancelled)
		e.rejectSend(s, err)
		return
	}
	s.slide()
	e.announce(s)
	switch {
	case s.frag.HeaderLen > 0:
		if s.allow(0) && s.state == sendPermission {
			e.ready(s)
		}
	case s.kind == kindGet && s.inb != nil:
		e.grants.add(e, s.inb)
	case s.state == sendPermission, s.state == sendLocal && s.inb.recv != nil:
		e.ready(s)
	}
}

// slide tells the other users of the stretch of s that it has changed.
func (s *send) slide() {
	s.frag.Slide(s.refill.parts(), s.refill.base)
	if s.kind == kindGet && s.inb != nil {
		s.inb.parts = s.frag.Parts
	}
}

// described returns how many bytes of a send may leave, as far as its own process is concerned.
func (s *send) described() uint64 {
	if s.refill != nil {
		return s.refill.end
	}
	return s.frag.Length
}

// allow notes that the bytes below limit are permitted. It reports whether more may be posted than
// before.
func (s *send) allow(limit uint64) bool {
	if rf := s.refill; rf != nil {
		rf.permitted = max(rf.permitted, limit)
		limit = min(rf.permitted, rf.end)
	}
	if limit <= s.frag.Limit {
		return false
	}
	s.frag.Limit = limit
	return true
}

// Acknowledged moves the stretch of a send past acknowledged bytes.
func (h *handler) Acknowledged(f *rel.Fragment, offset, n uint64) {
	if s, ok := f.Owner.(*send); ok && s.refill != nil {
		h.engine().over(s.refill, offset, n)
		s.slide()
	}
}

// refillReceive extends what a receive may permit. If a descriptor is wrong while the message is
// already arriving, the rest of the message is dropped and the receive ends with it: the sender
// cannot help.
func (e *Engine) refillReceive(r *receive) {
	e.counts[vni.NICRefills]++
	if err := r.refill.extend(); err != nil {
		if r.inb == nil {
			e.rejectReceive(r, err)
			return
		}
		r.refill.broken = statusOf(err)
		e.grown(r)
		e.badArgument(r.p, err)
		return
	}
	e.grown(r)
}

// grown lets the message of a receive continue after the receive's stretch has changed.
func (e *Engine) grown(r *receive) {
	r.parts = r.refill.parts()
	inb := r.inb
	if inb == nil {
		return
	}
	inb.parts = r.parts
	switch {
	case inb.staging != nil:
		e.drain(inb)
	case inb.kind == inboundRequest:
		e.grants.add(e, inb)
	case inb.kind == inboundLocal:
		e.resumeLocal(inb)
	}
}

// covers reports whether all bytes that the receive will keep of a message of n bytes have a
// place.
func (r *receive) covers(n uint64) bool {
	return r.refill == nil || r.refill.complete() || r.refill.end >= n
}

// keeps returns how many bytes of a message the receive keeps at most.
func (r *receive) keeps() uint64 {
	if r.refill != nil && r.refill.broken != vni.StatusOK {
		return r.refill.end
	}
	return r.size
}

// stretch returns the refill that takes the bytes of an inbound, or nil if their whole place is
// known.
func (inb *inbound) stretch() *refill {
	switch {
	case inb.recv != nil:
		return inb.recv.refill
	case inb.kind == inboundGet:
		return inb.local.refill
	}
	return nil
}

// slide tells the other users of the stretch of an inbound that it has changed.
func (inb *inbound) slide(rf *refill) {
	inb.parts = rf.parts()
	if inb.recv != nil {
		inb.recv.parts = inb.parts
	} else {
		inb.local.frag.Slide(inb.parts, rf.base)
	}
}

// reach returns how many bytes of an inbound may be permitted: they are ready at their sender, and
// have a place or will be dropped.
func (e *Engine) reach(inb *inbound) uint64 {
	if e.cfg.Defect == mutate.PermitUnready {
		return inb.length
	}
	rf := inb.stretch()
	if rf == nil || inb.staging != nil || rf.complete() || e.cfg.Defect == mutate.PermitUndescribed {
		return inb.ready
	}
	return min(rf.end, inb.ready)
}

// announce tells the receiver of s how much of it is ready, if that is news and worth a record:
// all of it, or as much again as the receiver has yet to permit. So a message takes few records,
// however a process cuts it up. The record is of the kind with which s began, so that either may
// overtake the other. If the receiver permitted bytes that are not ready, one stopped process
// could keep the whole permission of its NIC.
func (e *Engine) announce(s *send) {
	rf := s.refill
	if rf == nil || s.frag.Type != wire.TypeChunk || rf.announced == rf.end {
		return
	}
	if rf.end < rf.size && rf.end-rf.announced < rf.announced-rf.permitted {
		return // the next permission looks at it again
	}
	n := wire.RequestLen
	if s.kind == kindPut {
		n = wire.LongPutLen
	}
	if b := s.peer.ep.Control(e.now, n); b != nil {
		s.putRequest(b)
	}
}

// putRequest writes the record that asks for permission to send s and says how much of it is
// ready.
func (s *send) putRequest(b []byte) {
	if s.refill != nil {
		s.refill.announced = s.refill.end
	}
	if s.kind == kindPut {
		wire.PutLongPut(b, s.frag.ID, &s.remote, s.described())
		return
	}
	piece := uint64(s.peer.ep.PieceLen(wire.TypeChunk))
	q := wire.Request{ID: s.frag.ID, Length: s.frag.Length, PacketLen: uint32(piece), Ready: s.described(),
		Envelope: s.env}
	q.Packets = uint32(min((s.frag.Length+piece-1)/piece, 1<<32-1))
	q.Put(b)
}

// readier notes that more of a message is ready than its NIC has said before.
func (e *Engine) readier(inb *inbound, ready uint64) {
	inb.ready = max(inb.ready, min(ready, inb.length))
	if inb.kind == inboundPut || inb.recv != nil || inb.staging != nil {
		e.grants.add(e, inb)
	}
}

// drain moves a message from staging into a stretch that does not hold all of it, as far as the
// stretch is described.
func (e *Engine) drain(inb *inbound) {
	if !inb.done {
		return
	}
	r := inb.recv
	to := min(r.refill.end, inb.here())
	e.placeRefilled(r.refill, inb.drained, inb.staging[inb.drained:to])
	inb.drained = to
	inb.slide(r.refill)
	if r.covers(inb.here()) {
		e.deliverInbound(inb)
	}
}
