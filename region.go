package weft

import (
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Region is memory that a process shares with its NIC. Others who have its [Handle] PUT into it and GET from it without
// the process's help, and messages that lie in it are sent without being staged (USNIC-31, USNIC-55).
type Region struct {
	r *proc.Region
	p *Process
}

// Alloc makes a region of n bytes, zeroed.
func (p *Process) Alloc(n int) (*Region, error) {
	r, err := p.p.Alloc(n)
	if err != nil {
		return nil, err
	}
	return &Region{r, p}, nil
}

// Bytes is the region's memory. It must not be touched after Close.
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
// 1024 regions and shares open.
func (r *Region) Share(offset, n int, rights Rights) (*Share, error) {
	if rights > ReadOnly {
		return nil, &OpError{Op: "share", Err: fmt.Errorf("%w: rights %d; expected ReadWrite or ReadOnly", ErrBadArgument, rights)}
	}
	part, err := r.r.Part(offset, n, rights == ReadOnly)
	if err != nil {
		return nil, err
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
func (s *Share) Close() error { return s.part.Close() }

// Close ends the region: later PUTs and GETs are refused. It fails, and the region stays, while operations of its own
// process use it. A second Close does nothing.
func (r *Region) Close() error { return r.r.Close() }
