package weft

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
)

// Process is one process of the fabric. It has a name, and a virtual network interface that sends
// and receives. [Open], [Attach] and [NIC.Attach] each return a Process. Goroutines may use a
// Process concurrently.
type Process struct {
	port       // port 0
	name       Name
	place      Place // in a parallel job; zero if the program named the process
	addr       Address
	nic        *NIC // the embedded NIC; nil with a daemon
	closeNIC   bool
	groups     map[string]*Group     // the groups that the process joined when it attached
	world      atomic.Pointer[Group] // the open group of World
	known      nameCache
	ports      portsTaken
	time       proc.Time
	askProgram func(context.Context, nicid.ID, *ctl.Program) (*ctl.ProgramReply, error)

	// share makes or finds a segment, and returns the function that releases it.
	share func(id uint32, size int) (mem []byte, leave func() error, err error)
	calls func() (kicks, wakes uint64) // nil with an embedded NIC
	// leave makes the NIC forget the process, after every operation has ended.
	leave   func() error
	closing sync.Once
	ended   endErrors
}

// Name returns the name of the process.
func (p *Process) Name() Name { return p.name }

// Address returns the address of the process. Every later process has a different address, even if
// that process has the same name.
func (p *Process) Address() Address { return p.addr }

// NIC returns the NIC in this program to which the process is attached. It returns nil if the NIC
// is a daemon.
func (p *Process) NIC() *NIC { return p.nic }

// ProcessStats counts what a process has done for its messages since it was opened. The NIC counts
// its own work: see [NIC.Counters] and `weft stat`.
type ProcessStats struct {
	Kicks uint64 // system calls that woke a sleeping NIC daemon; 0 with an embedded NIC
	Wakes uint64 // system calls that waited for the daemon; 0 while a goroutine polls

	CopiedOutBytes uint64 // bytes copied from the program's memory to memory shared with the NIC
	CopiedInBytes  uint64 // bytes copied from memory shared with the NIC to the program's memory
}

// Stats returns the counts of the process.
func (p *Process) Stats() (s ProcessStats) {
	if p.calls != nil {
		s.Kicks, s.Wakes = p.calls()
	}
	s.CopiedOutBytes, s.CopiedInBytes = p.p.Copied()
	return s
}

// init sets the half of the process that package proc implements.
func (p *Process) init(half *proc.Process) {
	p.p, p.of, p.names = half, p, &p.known
}

// WaitName waits until a live process has the given name, and returns the address of that process.
func (p *Process) WaitName(ctx context.Context, name Name) (Address, error) {
	return p.waitName(ctx, "wait for", name)
}

func (p *Process) waitName(ctx context.Context, op string, name Name) (Address, error) {
	if err := ctx.Err(); err != nil {
		return Address{}, &OpError{Op: op, Peer: name, Err: err}
	}
	n, err := name.vni()
	if err != nil {
		return Address{}, &OpError{Op: op, Err: err}
	}
	d, err := p.p.Resolve(ctx, n)
	return Address{NICID(d.NIC), d.Slot, d.Gen}, p.alone(opError(err))
}

// alone adds the likely cause to the error of a wait that timed out: the NIC knows no other NIC.
func (p *Process) alone(err error) error {
	if p.nic == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if nodes, closed := p.nic.Nodes(); closed != nil || len(nodes) > 0 {
		return err
	}
	cause := func(err error) error {
		return fmt.Errorf("%w; this NIC knows no other NIC: name one by Config.Nodes or --node", err)
	}
	switch e := err.(type) {
	case *OpError:
		e.Err = cause(e.Err)
	case *GroupError:
		e.Err = cause(e.Err)
	}
	return err
}

// Close closes the process. Operations in flight fail with [ErrClosed]. If an operation of another
// process waits for this process, that operation fails with [ErrProcessGone]. The name of the
// process becomes free. This program may use an open region until the region is closed, but other
// processes can no longer access the region. If [Open] returned the process, Close also closes the
// NIC.
func (p *Process) Close() error {
	err := p.close()
	if p.closeNIC {
		return errors.Join(err, p.nic.Close())
	}
	return err
}

func (p *Process) close() error {
	p.closing.Do(func() {
		p.ended.add(opError(p.p.Close()), p.leave())
	})
	return p.ended.get()
}

// endErrors collects the errors that occur when a process ends. The function that releases the
// segment of the process adds to them. A call for which Close does not wait, such as a call of an
// Inbox, may run this function.
type endErrors struct {
	mu  sync.Mutex
	err error
}

func (e *endErrors) add(errs ...error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = errors.Join(e.err, errors.Join(errs...))
}

func (e *endErrors) get() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}
