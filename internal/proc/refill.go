package proc

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// A refill describes the memory of an operation to the NIC piece by piece while the operation
// goes on (QNIX-22). So neither the pieces nor the bytes have to fit anywhere all at once. The
// goroutine that waits for the operation refills it. Therefore only blocking forms have a refill.
//
//	in regions      more pieces than a context region has descriptors; no copy
//	by a buffer     a few slots of the pool, or of a temporary region, take turns:
//
//	         copied in             posted, permitted        consumed
//	  send  ───────────► slot k ──────────────────► NIC ──────────► slot k takes piece k+slots
//	  receive            slot k ──────────────────► NIC ──────────► copied out, and so on
//
// One piece is copied while the others are in flight.
type refill struct {
	length, described uint64
	filled            uint32 // number of filled descriptors
	seen              uint32 // number of descriptors that were consumed at the last check
	taken, consumed   uint32 // counts of the context when the operation began
	entry             uint32 // entry of the last Refill in the command queue,
	posted            bool   // if one was posted

	pieces  []vni.Descriptor // in regions: all descriptors
	regions []*Region        // regions of the pieces, one entry for each piece

	mem    []byte // the buffer; nil if pieces holds all descriptors
	region uint32 // region of the buffer
	offset uint64
	slot   uint64 // bytes of one piece
	slots  int    // descriptors that may be filled and not consumed
	// For a send: the bytes to copy, from part on. Bytes that were copied are cut off.
	from   [][]byte
	part   int
	into   []byte // destination of a receive or GET
	copied uint64 // bytes that were copied to into
	counts *copied
}

// takeRefill gives o a refill if one more operation may be refilled. The command queue has room
// in reserve for a fixed number.
func (p *Process) takeRefill(o *Op) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeRefillLocked(o)
}

func (p *Process) takeRefillLocked(o *Op) bool {
	n := len(p.refills)
	if n == 0 {
		return false
	}
	o.refill = p.refills[n-1]
	p.refills = p.refills[:n-1]
	o.refill.counts = &p.copied
	return true
}

// giveRefill takes the refill back. The caller holds mu.
func (p *Process) giveRefill(o *Op) {
	f := o.refill
	if f == nil {
		return
	}
	for _, r := range f.regions {
		r.refills--
	}
	clear(f.regions)
	clear(f.from)
	*f = refill{pieces: f.pieces[:0], regions: f.regions[:0], from: f.from[:0]}
	p.refills = append(p.refills, f)
	o.refill = nil
}

// refillRegions makes r an operation that is refilled from regions. It returns false if some of
// parts lie in no region.
func (p *Process) refillRegions(r *request, parts [][]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.takeRefillLocked(r.op) {
		return false
	}
	f := r.op.refill
	for _, part := range parts {
		reg, d := p.find(part)
		if reg == nil {
			p.giveRefill(r.op)
			return false
		}
		reg.refills++
		f.pieces, f.regions = append(f.pieces, d), append(f.regions, reg)
	}
	f.slots = p.pieces
	p.beginRefill(r)
	return true
}

// refillBuffer makes r an operation that is refilled through a buffer.
func (p *Process) refillBuffer(r *request, parts [][]byte) error {
	o := r.op
	f := o.refill
	f.slots = min(limits.RefillSlots, p.pieces)
	if err := p.takeBuffer(&o.place, f.slots, r.length); err != nil {
		return err
	}
	f.mem, f.region = o.place.mem, vni.PoolRegion
	if o.place.pages > 0 {
		f.offset = uint64(o.place.first) * limits.PageBytes
	} else {
		f.region = o.place.temp.id
	}
	f.slot = uint64(len(f.mem)/f.slots) &^ (limits.PageBytes - 1)
	if r.into != nil {
		f.into = r.into
	} else {
		f.from = append(f.from, parts...)
	}
	p.beginRefill(r)
	return nil
}

// takeBuffer finds the memory of a buffer with the given number of slots. It takes half the pool,
// or less if that is not free, or otherwise a temporary region of at most the same size.
func (p *Process) takeBuffer(pl *place, slots int, n uint64) error {
	p.mu.Lock()
	most := min(limits.RefillBytes/limits.PageBytes, len(p.poolMem)/limits.PageBytes/2)
	for pages := most; pages >= max(slots, most/4); pages /= 2 {
		if first, ok := p.pool.take(pages); ok {
			pl.first, pl.pages = first, pages
			pl.mem = p.poolMem[first*limits.PageBytes:][:pages*limits.PageBytes]
			p.mu.Unlock()
			return nil
		}
	}
	p.mu.Unlock()
	whole := uint64(pagesFor(n)+slots) * limits.PageBytes
	return p.takeTemporary(pl, min(whole, limits.RefillBytes))
}

// beginRefill describes the first pieces. The context belongs to r and is not posted.
func (p *Process) beginRefill(r *request) {
	o := r.op
	f := o.refill
	f.length = r.length
	f.taken, f.consumed = p.vp.Taken(o.receive, o.ctx), p.vp.Consumed(o.receive, o.ctx)
	p.vp.ClearDescriptors(o.receive, o.ctx)
	p.describe(o)
	r.memory(vni.NoPool, int(f.filled))
	if r.receive {
		r.recv.Flags |= vni.Refilled
	} else {
		r.send.Flags |= vni.Refilled
	}
}

// describe fills the free descriptors, and copies bytes to or from memory that the NIC can
// access. It reports whether the NIC may have looked at one of the descriptors before it was
// filled. This is possible if the NIC had taken all descriptors before it.
func (p *Process) describe(o *Op) (missed bool) {
	f := o.refill
	f.seen = p.vp.Consumed(o.receive, o.ctx) - f.consumed
	if f.into != nil {
		f.copyOut(min(uint64(f.seen)*f.slot, f.length))
	}
	for f.described < f.length && int(f.filled-f.seen) < f.slots {
		d := f.next()
		p.vp.SetDescriptor(o.receive, o.ctx, f.filled, d)
		missed = missed || p.vp.Taken(o.receive, o.ctx)-f.taken == f.filled
		f.filled++
		f.described += d.Len
	}
	return missed
}

// next returns the next descriptor.
func (f *refill) next() vni.Descriptor {
	if f.mem == nil {
		return f.pieces[f.filled]
	}
	at := uint64(int(f.filled)%f.slots) * f.slot
	n := min(f.slot, f.length-f.described)
	if f.into == nil {
		f.copyIn(f.mem[at:][:n])
	}
	return vni.Descriptor{Region: f.region, Offset: f.offset + at, Len: n}
}

// copyIn fills a slot. This is the only copy on this side, since the NIC of an attached process
// can access only shared memory.
func (f *refill) copyIn(slot []byte) {
	for len(slot) > 0 {
		b := &f.from[f.part]
		n := copy(slot, *b)
		f.counts.out.Add(uint64(n))
		slot = slot[n:]
		if *b = (*b)[n:]; len(*b) == 0 {
			f.part++
		}
	}
}

// copyOut copies received bytes to the caller, up to a byte of the message. This is the only copy
// on this side.
func (f *refill) copyOut(to uint64) {
	for f.copied < to {
		at := f.copied / f.slot % uint64(f.slots) * f.slot
		n := uint64(copy(f.into[f.copied:to], f.mem[at:][:f.slot]))
		f.copied += n
		f.counts.in.Add(n)
	}
}

// stirred reports whether the operation waits for more work of its process.
func (f *refill) stirred(vp *vni.Process, receive bool, ctx int) bool {
	return (f.described < f.length || f.into != nil) && vp.Consumed(receive, ctx)-f.consumed != f.seen
}

// stirred is rung for a goroutine that refills o while it waits.
func (o *Op) stirred() bool {
	return o.rung() || o.refill != nil && o.refill.stirred(o.p.vp, o.receive, o.ctx)
}

// attend waits for o, and refills it meanwhile.
func (p *Process) attend(ctx context.Context, o *Op) error {
	for {
		err := p.w.Wait(ctx, o.ready)
		if err != nil || o.refill == nil || o.rung() {
			return err
		}
		p.postRefill(o)
		// Otherwise an operation that is always stirred would never end.
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// postRefill describes more of o and posts a Refill, so that the NIC looks at the new
// descriptors. It posts none if the NIC has not yet seen the earlier descriptors, or has not yet
// read the last Refill: then the NIC will find the new ones as well.
func (p *Process) postRefill(o *Op) {
	if !p.describe(o) {
		return
	}
	c := vni.Command{Code: vni.CodeRefill, Context: uint16(o.ctx), Size: vni.CancelSend}
	if o.receive {
		c.Size = vni.CancelReceive
	}
	f := o.refill
	p.mu.Lock()
	if p.nicGone() == nil && !(f.posted && p.vp.Unread(f.entry, c)) {
		f.posted, f.entry = true, p.vp.Tail()
		if !p.vp.Post(c) {
			panic("proc: no room for a Refill in spite of the reserve")
		}
	}
	kick := p.vp.MustKick()
	p.mu.Unlock()
	if kick {
		p.w.Kick()
	}
}

// refills returns how many operations of a process with such a command queue may be refilled
// concurrently. Each may have one unread Refill in the queue. A queue without room for another
// operation must hold more than all of these and the receives, which may stay for ever. The end
// of that additional operation wakes the goroutines that wait for room; see New.
func refills(commands, contexts, descriptors int) int {
	if descriptors < 2 {
		return 0 // otherwise a send would wait for each piece
	}
	return max(0, min(limits.Refills, (commands-3*contexts-17)/2))
}

// inUse returns the error of closing a region that is in use.
func (r *Region) inUse() error {
	if r.refills == 0 {
		return nil
	}
	return &OpError{Op: "free", Err: fmt.Errorf("%w: region %d", ErrRegionInUse, r.id)}
}
