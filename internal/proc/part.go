package proc

import (
	"fmt"
	"slices"
)

// Part is a stretch of a region with a key of its own, for processes that may reach nothing else of the region.
type Part struct {
	r   *Region
	id  uint32
	key uint64
}

// Part lets others reach n bytes of the region from offset on, to be read only if sealed.
func (r *Region) Part(offset, n int, sealed bool) (*Part, error) {
	if offset < 0 || n < 1 || offset > len(r.mem) || n > len(r.mem)-offset {
		return nil, &OpError{Op: "share", Err: fmt.Errorf("%w: %d bytes from %d on; expected 1 or more within the region's %d", ErrRange, n, offset, len(r.mem))}
	}
	if r.sealed && !sealed {
		return nil, &OpError{Op: "share", Err: fmt.Errorf("%w: the region is ReadOnly, and so are its shares", ErrBadArgument)}
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

// Handle is what others need for PUT and GET.
func (t *Part) Handle() Handle {
	h := t.r.Handle()
	h.Region, h.Key = t.id, t.key
	return h
}

// Close ends what others may do by the part's handle. A second Close does nothing, nor does one after the region's.
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
