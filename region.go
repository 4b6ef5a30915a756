package weft

import "github.com/weftnet/weft/internal/proc"

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

// Close ends the region: later PUTs and GETs are refused. It fails, and the region stays, while operations of its own
// process use it. A second Close does nothing.
func (r *Region) Close() error { return r.r.Close() }
