package proc

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Region is memory that both this process and its NIC can access. It is the target of PUT and
// GET, and messages from it are sent without a copy.
type Region struct {
	p      *Process
	id     uint32
	key    uint64
	mem    []byte
	closed bool // under p.mu
	sealed bool
	theirs bool // memory of the caller, which may be unmapped
	inner  bool // of a group: ends with the process, since the user cannot close it

	parts   []*Part // under p.mu: open ones
	refills int     // under p.mu: pieces of operations that are refilled from it
}

// Handle names a region to other processes (USNIC-53). A process with the handle may read and
// write the region.
type Handle struct {
	NIC    uint64
	Slot   uint16
	Gen    uint32
	Region uint32
	Key    uint64
}

// Alloc returns a new region of n zeroed bytes, 1 to limits.MaxRegion.
func (p *Process) Alloc(n int) (*Region, error) { return p.alloc(n, false) }

// AllocHuge is Alloc in huge pages.
func (p *Process) AllocHuge(n int) (*Region, error) { return p.alloc(n, true) }

func (p *Process) alloc(n int, huge bool) (*Region, error) {
	if n < 1 || n > limits.MaxRegion {
		return nil, &OpError{Op: "alloc", Err: fmt.Errorf("%w: region of %d bytes, expected 1 to %d", ErrBadArgument,
			n, limits.MaxRegion)}
	}
	if !p.enter() {
		return nil, &OpError{Op: "alloc", Err: ErrClosed}
	}
	defer p.leave()
	p.mu.Lock()
	err := p.usable()
	p.mu.Unlock()
	if err != nil {
		return nil, &OpError{Op: "alloc", Err: err}
	}
	id, key, mem, err := p.mem.Alloc(n, huge)
	if err != nil {
		return nil, &OpError{Op: "alloc", Err: err}
	}
	r := &Region{p: p, id: id, key: key, mem: mem}
	p.mu.Lock()
	p.insert(r)
	p.mu.Unlock()
	return r, nil
}

// allocInner creates a region for a group.
func (p *Process) allocInner(n int) (*Region, error) {
	r, err := p.alloc(n, false)
	if err == nil {
		p.mu.Lock()
		r.inner = true
		p.mu.Unlock()
	}
	return r, err
}

// closeInner closes the regions of groups. No call accesses them any more.
func (p *Process) closeInner() (err error) {
	p.mu.Lock()
	all := slices.DeleteFunc(slices.Clone(p.regions), isOuter)
	p.mu.Unlock()
	for _, r := range all {
		err = errors.Join(err, r.Close())
	}
	return err
}

// isOuter reports whether a region's user closes it. The caller holds p.mu.
func isOuter(r *Region) bool { return !r.inner }

// insert adds a region to p.regions, which is sorted by address. The caller holds mu.
func (p *Process) insert(r *Region) {
	i, _ := slices.BinarySearchFunc(p.regions, address(r.mem), byAddress)
	p.regions = slices.Insert(p.regions, i, r)
}

// Bytes returns the region's memory. It must not be accessed after Close.
func (r *Region) Bytes() []byte { return r.mem }

// Handle returns the handle that other processes need for PUT and GET.
func (r *Region) Handle() Handle {
	id := r.p.id
	return Handle{NIC: id.NIC, Slot: id.Slot, Gen: id.Gen, Region: r.id, Key: r.key}
}

// Close ends the region. While operations use the region, Close fails and the region stays. A
// second Close does nothing.
func (r *Region) Close() error {
	p := r.p
	p.sharing.Lock()
	defer p.sharing.Unlock()
	p.mu.Lock()
	if r.closed {
		p.mu.Unlock()
		return nil
	}
	if err := r.inUse(); err != nil {
		p.mu.Unlock()
		return err
	}
	r.closed = true
	parts := r.parts
	// The NIC closes the parts with the region, and may then reuse their ids.
	r.parts = nil
	i := slices.Index(p.regions, r)
	p.regions = slices.Delete(p.regions, i, i+1)
	p.noteRegistered()
	p.mu.Unlock()
	if err := p.mem.Free(r.id); err != nil {
		p.mu.Lock()
		r.closed, r.parts = false, parts
		p.insert(r)
		p.noteRegistered()
		p.mu.Unlock()
		return &OpError{Op: "free", Err: err}
	}
	if p.closed.Load() {
		p.letGo()
	}
	return nil
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func byAddress(r *Region, a uintptr) int {
	switch b := address(r.mem); {
	case b < a:
		return -1
	case b > a:
		return 1
	}
	return 0
}

// inRegions appends the descriptors of parts to d. It fails if a part lies in no region, or if an
// operation cannot name so many pieces.
func (p *Process) inRegions(parts [][]byte, d []vni.Descriptor) ([]vni.Descriptor, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.regions) == 0 || len(parts) == 0 || len(parts) > p.pieces {
		return nil, false
	}
	for _, part := range parts {
		r, piece := p.find(part)
		if r == nil {
			return nil, false
		}
		d = append(d, piece)
	}
	return d, true
}

// find returns the region in which a part lies, and the part's descriptor. If the part lies in no
// region, find returns nil. The caller holds mu.
func (p *Process) find(part []byte) (*Region, vni.Descriptor) {
	i, exact := slices.BinarySearchFunc(p.regions, address(part), byAddress)
	if !exact {
		i--
	}
	if i < 0 {
		return nil, vni.Descriptor{}
	}
	r := p.regions[i]
	off := uint64(address(part) - address(r.mem))
	if off+uint64(len(part)) > uint64(len(r.mem)) {
		return nil, vni.Descriptor{}
	}
	return r, vni.Descriptor{Region: r.id, Offset: off, Len: uint64(len(part))}
}
