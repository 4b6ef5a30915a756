package weft

import (
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Region is memory that a process shares with its NIC. Other processes that have the region's
// [Handle] can PUT into the region and GET from it without the owner's help. If a message lies in a
// region, the NIC sends it without a copy.
type Region struct {
	r *proc.Region
	p *Process

	unmap func() error // for Close; nil: Close need not unmap the memory
}

// Alloc makes a region of n bytes, 1 to 64 GiB. All its bytes are zero. Alloc fails with
// [ErrNoMemory] if the system or a cgroup has too little memory, if the daemon's quota is used up
// or, in a simulation, if n is over 1 GiB. If a cgroup limits the memory, Alloc touches every page
// of a region that a daemon makes, and of a region of 64 MiB or more, so that a later access cannot
// fail. A region of 64 MiB or more lies outside of Go's heap, so only [Region.Close] frees the
// region.
func (p *Process) Alloc(n int) (*Region, error) {
	r, err := p.p.Alloc(n)
	if err != nil {
		return nil, opError(err)
	}
	return &Region{r: r, p: p}, nil
}

// AllocHuge is like [Process.Alloc], but it uses huge pages, which make access to large memory
// faster. The region occupies whole huge pages, but [Region.Bytes] still has n bytes. AllocHuge
// fails with [ErrNoMemory] if too few huge pages are free. Only Linux has huge pages. The
// administrator reserves huge pages with the sysctl vm.nr_hugepages.
func (p *Process) AllocHuge(n int) (*Region, error) {
	r, err := p.p.AllocHuge(n)
	if err != nil {
		return nil, opError(err)
	}
	return &Region{r: r, p: p}, nil
}

// Register makes a region of memory that this program already has, such as a mapping of a file. The
// memory may begin and end at any address, but must not overlap another open region. If rights is
// [ReadOnly], the memory may be a read-only mapping. Then other processes can only GET from the
// region, and an operation of this process fails if it would write to the region.
//
// The memory must stay mapped until [Region.Close] returns. If the memory is a mapping of a file,
// the file must not become shorter. Register touches every page, and so faults every page in. Each
// later operation touches the pages that it uses. If an operation of this process needs a page that
// is not mapped, or would write to a read-only page, the operation fails with [ErrBadArgument] and
// sends nothing. If an operation of another process needs such a page, or would write to a
// read-only page, that operation fails with [ErrRegion]. If the memory is unmapped during an
// operation, this program crashes, in the same way as when Go code touches unmapped memory.
//
// Register needs a NIC in this program, or a simulated NIC. A NIC daemon cannot reach the memory of
// a program, so with a daemon Register fails with [ErrBadArgument]. With a daemon, use
// [Process.RegisterFile], [Process.Alloc] or [Process.AllocHuge].
func (p *Process) Register(mem []byte, rights Rights) (*Region, error) {
	if rights > ReadOnly {
		return nil, badRights("register", rights)
	}
	r, err := p.p.Register(mem, nil, rights == ReadOnly)
	if err != nil {
		return nil, opError(err)
	}
	return &Region{r: r, p: p}, nil
}

func badRights(op string, rights Rights) error {
	return &OpError{Op: op, Err: fmt.Errorf("%w: rights %d; expected ReadWrite or ReadOnly", ErrBadArgument, rights)}
}

// Bytes returns the region's memory. After Close, this Go program must not touch this memory,
// unless the region came from [Process.Register].
func (r *Region) Bytes() []byte { return r.r.Bytes() }

// Handle returns the handle with which other processes PUT into the region and GET from it.
func (r *Region) Handle() Handle {
	h := r.r.Handle()
	return Handle{owner: r.p.addr, region: h.Region, key: hide(h.Key), length: uint64(len(r.r.Bytes()))}
}

// Rights says which operations other processes may use on a [Region] or a [Share].
type Rights uint8

const (
	ReadWrite Rights = iota // 0: PUT and GET
	ReadOnly                // 1: only GET
)

// Share makes a handle for n bytes of the region, starting at offset. The handle gives access to
// these bytes only: the NIC refuses other accesses with [ErrRange]. If the rights are [ReadOnly],
// the NIC refuses PUTs with [ErrRegion]. When the region closes, its shares close too.
//
// Share fails with [ErrRange] if the bytes are not in the region, and with [ErrRegion] after Close.
// It fails with [ErrBadArgument] if the rights are ReadWrite and the region was registered as
// ReadOnly. It fails with [ErrNoMemory] if the process already has 1024 open regions and shares.
func (r *Region) Share(offset, n int, rights Rights) (*Share, error) {
	if rights > ReadOnly {
		return nil, badRights("share", rights)
	}
	part, err := r.r.Part(offset, n, rights == ReadOnly)
	if err != nil {
		return nil, opError(err)
	}
	h := part.Handle()
	return &Share{part, Handle{owner: r.p.addr, region: h.Region, key: hide(h.Key), length: uint64(n)}}, nil
}

// Share is a part of a [Region] with its own handle.
type Share struct {
	part   *proc.Part
	handle Handle
}

// Handle returns the handle of the share. Offset 0 is the share's first byte.
func (s *Share) Handle() Handle { return s.handle }

// Close closes the share. PUTs and GETs with its handle fail with [ErrRegion], even if they are
// already in flight. A second Close does nothing.
func (s *Share) Close() error { return opError(s.part.Close()) }

// Close closes the region and its shares. PUTs and GETs of other processes fail with [ErrRegion],
// even if they are already in flight. If an operation of this process is using the region, Close
// fails with [ErrRegionInUse], and the region stays open. A second Close does nothing.
func (r *Region) Close() error {
	if err := r.r.Close(); err != nil || r.unmap == nil {
		return opError(err)
	}
	return r.unmap()
}
