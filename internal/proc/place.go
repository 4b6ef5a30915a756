package proc

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// place describes where the bytes of an operation are staged, if they are.
type place struct {
	pages int // of the pool, starting at first
	first int
	temp  temporary
	mem   []byte // its length is that of the operation's bytes
}

// temporary is a region for messages that do not fit into the pool. Creating one requires a
// request to the daemon, so a few are kept.
type temporary struct {
	id  uint32
	mem []byte
}

// put chooses where the bytes of r are staged, copies them there, and fills in r's context. It
// needs no lock, because r's context belongs to r, and because it may copy many bytes.
func (p *Process) put(r *request, parts [][]byte) error {
	o := r.op
	r.send.Flags &^= vni.Refilled // set if an earlier attempt failed
	r.recv.Flags &^= vni.Refilled
	one := [1][]byte{r.into}
	if r.into != nil {
		parts = one[:]
	}
	var few [limits.Descriptors]vni.Descriptor
	if d, ok := p.inRegions(parts, few[:0]); ok {
		p.vp.SetDescriptors(r.receive, o.ctx, d)
		r.memory(vni.NoPool, len(d))
		return nil
	}
	if r.receive && r.into == nil {
		return errScattered
	}
	if r.waits && r.length > limits.StagedMessage {
		if len(parts) > p.pieces && p.refillRegions(r, parts) {
			return nil
		}
		if !p.fitsPool(r.length) && p.takeRefill(o) {
			return p.refillBuffer(r, parts)
		}
	}
	if err := p.stage(&o.place, r.length); err != nil {
		return err
	}
	if o.place.pages > 0 {
		r.memory(int32(o.place.first), o.place.pages)
	} else {
		p.vp.SetDescriptors(r.receive, o.ctx, append(few[:0], vni.Descriptor{Region: o.place.temp.id, Len: r.length}))
		r.memory(vni.NoPool, 1)
	}
	if r.into != nil {
		o.out = r.into
		if !r.both {
			return nil
		}
	}
	// This is the only copy on this side: the NIC of an attached process can access only shared
	// memory, not the caller's memory.
	if r.run != nil {
		packRun(o.place.mem, r.run)
	} else {
		copyParts(o.place.mem, parts)
	}
	p.copied.out.Add(r.length)
	return nil
}

// fitsPool reports whether the pool has room for n bytes at this moment.
func (p *Process) fitsPool(n uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pool.fits(pagesFor(n))
}

// stage finds n bytes of staging memory.
func (p *Process) stage(pl *place, n uint64) error {
	pages := pagesFor(n)
	p.mu.Lock()
	first, ok := p.pool.take(pages)
	p.mu.Unlock()
	if !ok {
		return p.takeTemporary(pl, n)
	}
	pl.first, pl.pages = first, pages
	pl.mem = p.poolMem[first*limits.PageBytes:][:n]
	return nil
}

// stagePage stages a short receive in a page of the pool if it lies in no region. There is
// nothing to copy yet. The caller holds mu, so most receives take mu only once.
func (p *Process) stagePage(r *request) bool {
	if !r.receive || r.into == nil || r.both || r.length > limits.PageBytes {
		return false
	}
	if region, _ := p.find(r.into); region != nil {
		return false
	}
	first, ok := p.pool.take(1)
	if !ok {
		return false
	}
	o := r.op
	o.place.first, o.place.pages, o.place.mem = first, 1, p.poolMem[first*limits.PageBytes:][:r.length]
	r.memory(int32(first), 1)
	o.out = r.into
	return true
}

// takeTemporary finds a temporary region for n bytes, or creates one.
func (p *Process) takeTemporary(pl *place, n uint64) (err error) {
	p.mu.Lock()
	t, ok := p.takeSpare(n)
	p.mu.Unlock()
	if !ok {
		if t, err = p.newTemporary(n); err != nil {
			return err
		}
	}
	pl.temp, pl.mem = t, t.mem[:n]
	return nil
}

// takeSpare takes the smallest kept region that holds n bytes.
func (p *Process) takeSpare(n uint64) (t temporary, ok bool) {
	best := -1
	for i := range p.spare {
		if uint64(len(p.spare[i].mem)) >= n && (best < 0 || len(p.spare[i].mem) < len(p.spare[best].mem)) {
			best = i
		}
	}
	if best < 0 {
		return t, false
	}
	t = p.spare[best]
	p.spare = slices.Delete(p.spare, best, best+1)
	return t, true
}

// newTemporary creates a region for n bytes. Its size is a power of two, so that it can also fit
// the next message.
func (p *Process) newTemporary(n uint64) (temporary, error) {
	size := uint64(1) << bits.Len64(max(n, limits.PageBytes)-1)
	id, _, mem, err := p.mem.Alloc(int(size), false)
	if err != nil {
		return temporary{}, fmt.Errorf("staging %d bytes: %w", n, err)
	}
	return temporary{id, mem}, nil
}

// giveUp ends the use of a place. The caller holds mu. A temporary region is kept for the next
// operation. trim frees surplus regions without mu, since this may require a request to the
// daemon.
func (p *Process) giveUp(pl *place) {
	if pl.pages > 0 {
		p.pool.give(pl.first, pl.pages)
	} else if pl.temp.mem != nil {
		p.spare = append(p.spare, pl.temp)
	}
	*pl = place{}
}

// trim frees temporary regions until at most keep remain. It frees the smallest first, because
// the others can replace them.
func (p *Process) trim(keep int) (err error) {
	for {
		p.mu.Lock()
		if len(p.spare) <= keep {
			p.mu.Unlock()
			return err
		}
		least := 0
		for i := range p.spare {
			if len(p.spare[i].mem) < len(p.spare[least].mem) {
				least = i
			}
		}
		t := p.spare[least]
		p.spare = slices.Delete(p.spare, least, least+1)
		p.mu.Unlock()
		if e := p.mem.Free(t.id); e != nil {
			err = &OpError{Op: "free", Err: e}
		}
	}
}
