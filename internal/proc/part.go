package proc

import (
	"fmt"
	"slices"
)

// Part is a range of a region with its own key, for processes that may access no other part of
// the region.
type Part struct {
	r   *Region
	id  uint32
	key uint64
}

// Part allows other processes to access n bytes of the region, from offset on. If sealed, they
// may only read the bytes.
func (r *Region) Part(offset, n int, sealed bool) (*Part, error) {
	if offset < 0 || n < 1 || offset > len(r.mem) || n > len(r.mem)-offset {
		return nil, &OpError{Op: "share", Err: fmt.Errorf("%w: %d bytes from %d on; "+
			"expected 1 or more within the region's %d", ErrRange, n, offset, len(r.mem))}
	}
	if r.sealed && !sealed {
		return nil, &OpError{Op: "share", Err: fmt.Errorf("%w: the region is ReadOnly, and so are its shares",
			ErrBadArgument)}
	}
	p := r.p
	if !p.enter() {
		return nil, &OpError{Op: "share", Err: ErrClosed}
	}
	defer p.leave()
	p.sharing.Lock()
	defer p.sharing.Unlock()
	p.mu.Lock()
	err := p.usable()
	if err == nil && r.closed {
		err = ErrRegion
	}
	p.mu.Unlock()
	if err != nil {
		return nil, &OpError{Op: "share", Err: err}
	}
	part := &Part{r: r}
	if part.id, part.key, err = p.mem.Part(r.id, offset, n, sealed); err != nil {
		return nil, &OpError{Op: "share", Err: err}
	}
	p.mu.Lock()
	r.parts = append(r.parts, part)
	p.mu.Unlock()
	return part, nil
}

// Handle returns the handle that other processes need for PUT and GET.
func (t *Part) Handle() Handle {
	h := t.r.Handle()
	h.Region, h.Key = t.id, t.key
	return h
}

// Close ends the access by the part's handle. It does nothing if the part or its region is
// already closed.
func (t *Part) Close() error {
	p := t.r.p
	p.sharing.Lock()
	defer p.sharing.Unlock()
	p.mu.Lock()
	i := slices.Index(t.r.parts, t)
	if i >= 0 {
		t.r.parts = slices.Delete(t.r.parts, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 {
		return nil
	}
	if err := p.mem.Free(t.id); err != nil {
		return &OpError{Op: "free", Err: err}
	}
	return nil
}
