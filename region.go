package weft

import (
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Region is memory that a process shares with its NIC. Processes that have its [Handle] can PUT
// into it and GET from it without the owner's help. The NIC sends messages in a region without a
// copy.
type Region struct {
	r *proc.Region
	p *Process

	unmap func() error // for Close; nil: another owner unmaps the memory
}

// Alloc makes a region of n bytes, 1 to 64 GiB, all zero. It fails with [ErrNoMemory] if the system
// has too little memory, if the daemon's quota is used up or, in a simulation, if n is over 1 GiB.
// A region of 64 MiB or more lies outside of Go's heap, so only its Close frees it.
func (p *Process) Alloc(n int) (*Region, error) {
	r, err := p.p.Alloc(n)
	if err != nil {
		return nil, opError(err)
	}
	return &Region{r: r, p: p}, nil
}

// AllocHuge makes a region as [Process.Alloc] does, in huge pages, which make access to much memory
// faster. It takes whole huge pages; [Region.Bytes] has n bytes nevertheless. It fails with
// [ErrNoMemory] if too few huge pages are free. Only Linux has them, and its administrator reserves
// them by sysctl vm.nr_hugepages.
func (p *Process) AllocHuge(n int) (*Region, error) {
	r, err := p.p.AllocHuge(n)
	if err != nil {
		return nil, opError(err)
	}
	return &Region{r: r, p: p}, nil
}

// Register makes a region of memory that the program already has, such as a mapping of a file. The
// memory may begin and end anywhere, and must not overlap another open region. With [ReadOnly] it
// may be a mapping that cannot be written: other processes can only GET from it, and operations of
// this process that would write to it fail.
//
// The memory must stay mapped until [Region.Close] returns, and a file under it must not become
// shorter. Register touches every page, and so faults it in. Later each operation touches the pages
// that it uses. If a page is not mapped, or must be written and cannot, an operation of this
// process fails with [ErrBadArgument] and sends nothing. An operation of another process fails with
// [ErrRegion]. If the memory goes away during an operation, the program crashes, as it does when Go
// code touches such memory.
//
// Register needs a NIC in this program, or a simulated one. A NIC daemon cannot reach the memory of
// a program: with a daemon Register fails with [ErrBadArgument]. Use [Process.RegisterFile],
// [Process.Alloc] or [Process.AllocHuge] there.
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

// Bytes returns the region's memory. After Close it must not be touched, except memory that came
// from [Process.Register].
func (r *Region) Bytes() []byte { return r.r.Bytes() }

// Handle returns the handle by which other processes PUT into the region and GET from it.
func (r *Region) Handle() Handle {
	h := r.r.Handle()
	return Handle{owner: r.p.addr, region: h.Region, key: h.Key, length: uint64(len(r.r.Bytes()))}
}

// Rights is what a [Handle] permits.
type Rights uint8

const (
	ReadWrite Rights = iota // 0: PUT and GET
	ReadOnly                // 1: only GET
)

// Share makes a handle for n bytes of the region, from offset on. The handle reaches nothing else:
// the NIC refuses accesses beyond its end with [ErrRange], and PUTs with [ErrRegion] if the rights
// are [ReadOnly]. A share ends with its region at the latest.
//
// Share fails with [ErrRange] if the bytes are not in the region, with [ErrBadArgument] for a
// ReadWrite share of a region that was registered as ReadOnly, with [ErrRegion] after Close, and
// with [ErrNoMemory] if the process already has 1024 open regions and shares.
func (r *Region) Share(offset, n int, rights Rights) (*Share, error) {
	if rights > ReadOnly {
		return nil, badRights("share", rights)
	}
	part, err := r.r.Part(offset, n, rights == ReadOnly)
	if err != nil {
		return nil, opError(err)
	}
	h := part.Handle()
	return &Share{part, Handle{owner: r.p.addr, region: h.Region, key: h.Key, length: uint64(n)}}, nil
}

// Share is a part of a [Region] that has a handle of its own.
type Share struct {
	part   *proc.Part
	handle Handle
}

// Handle returns the handle of the share. Offset 0 is the share's first byte.
func (s *Share) Handle() Handle { return s.handle }

// Close ends the share. PUTs and GETs by its handle that are in flight, and later ones, fail with
// [ErrRegion]. A second Close does nothing.
func (s *Share) Close() error { return opError(s.part.Close()) }

// Close ends the region and its shares. PUTs and GETs of other processes that are in flight, and
// later ones, fail with [ErrRegion]. If an operation of this process that uses the region is in
// flight, Close fails with [ErrRegionInUse], and the region stays open. A second Close does
// nothing.
func (r *Region) Close() error {
	if err := r.r.Close(); err != nil || r.unmap == nil {
		return opError(err)
	}
	return r.unmap()
}
