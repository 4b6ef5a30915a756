package weft

import (
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Region is memory that a process shares with its NIC. Other processes that have its [Handle] PUT into it and GET from it without
// the process's help, and messages that lie in it are sent without being staged (USNIC-31, USNIC-55).
type Region struct {
	r *proc.Region
	p *Process

	unmap func() error // once the region is closed; nil: the memory is not the region's to unmap
}

// Alloc makes a region of n bytes, zeroed. It fails with [ErrNoMemory] where the system, or a daemon's quota, has no room for so much; in a
// simulation beyond 1 GiB. A region of 64 MiB or more is not of Go's heap: it takes memory until its Close.
func (p *Process) Alloc(n int) (*Region, error) {
	r, err := p.p.Alloc(n)
	if err != nil {
		return nil, opError(err)
	}
	return &Region{r: r, p: p}, nil
}

// AllocHuge is Alloc in huge pages of the system, so that programs with much memory wait less for its page tables. n is rounded up to whole ones
// in what it takes, not in [Region.Bytes]. It fails with [ErrNoMemory] where too few are free; Linux has them, and its administrator sets
// them aside (sysctl vm.nr_hugepages).
func (p *Process) AllocHuge(n int) (*Region, error) {
	r, err := p.p.AllocHuge(n)
	if err != nil {
		return nil, opError(err)
	}
	return &Region{r: r, p: p}, nil
}

// Register makes a region of memory that the program has already, such as a file's mapping, or huge pages of its own. It may begin and end
// anywhere, and must not overlap another open region. With [ReadOnly] it may be a mapping that cannot be written: others may GET from
// it, and an operation of this process that would write to it fails.
//
// The memory has to stay mapped until [Region.Close] has returned; it remains the caller's then. Register looks at each of its pages, which are so
// all brought in, and later each operation looks at those that it uses. If one is not mapped, or may not be written, the
// process's own operation fails with [ErrBadArgument] and sends nothing, and that of another process fails with [ErrRegion]. Memory that
// goes away in the middle of an operation ends the program, as it ends any Go code that uses it; and a file should not be made shorter.
//
// The NIC has to be in this program ([Open]), or simulated. One in a daemon cannot reach memory of another program's own: there Register fails
// with [ErrBadArgument], and [Process.RegisterFile], Alloc and [Process.AllocHuge] are what there is.
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

// Bytes is the region's memory. It must not be touched after Close, unless it was registered by [Process.Register].
func (r *Region) Bytes() []byte { return r.r.Bytes() }

// Handle is what others need to PUT into the region and to GET from it.
func (r *Region) Handle() Handle {
	h := r.r.Handle()
	return Handle{owner: r.p.addr, region: h.Region, key: h.Key, length: uint64(len(r.r.Bytes()))}
}

// Rights is what a handle lets others do.
type Rights uint8

const (
	ReadWrite Rights = iota // PUT and GET
	ReadOnly                // GET alone
)

// Share lets others reach n bytes of the region, from offset on, by a handle of their own, which gives nothing else of it: the NIC refuses the
// rest, and PUTs where the rights are [ReadOnly], with [ErrRegion] or [ErrRange]. It ends with the region at the latest. A process may have
// 1024 regions and shares open; what would be one more fails with [ErrNoMemory]. Of a region that was registered as ReadOnly nothing else can be shared.
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

// Share is a part of a region that others may reach.
type Share struct {
	part   *proc.Part
	handle Handle
}

// Handle is what others need. Its offsets begin at the share's first byte.
func (s *Share) Handle() Handle { return s.handle }

// Close takes the handle's rights back: later PUTs and GETs by it are refused, and those under way end. A second Close does nothing.
func (s *Share) Close() error { return opError(s.part.Close()) }

// Close ends the region: later PUTs and GETs are refused. It fails with [ErrRegionInUse], and the region stays, while operations of its
// own process use it, from their start to their end. A second Close does nothing.
func (r *Region) Close() error {
	if err := r.r.Close(); err != nil || r.unmap == nil {
		return opError(err)
	}
	return r.unmap()
}
