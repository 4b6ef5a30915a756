package weft

import (
	"context"
	"errors"
	"sync"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/proc"
)

// Process is one process of the fabric: a name, and a virtual network interface that sends and
// receives. [Open], [Attach] and [NIC.Attach] make one. Any number of goroutines may use it at once.
type Process struct {
	port       // 0
	name       Name
	addr       Address
	nic        *NIC // that it is embedded with; nil at a daemon
	closeNIC   bool
	groups     map[string]*Group // joined as it attached
	known      nameCache
	ports      portsTaken
	time       proc.Time
	askProgram func(context.Context, nicid.ID, *ctl.Program) (*ctl.ProgramReply, error)

	// share makes or finds a segment, and returns the function that releases it; nil: the NIC has none.
	share   func(id uint32, size int) (mem []byte, leave func() error, err error)
	calls   func() (kicks, wakes uint64) // nil: its NIC is in this program
	leave   func() error                 // when Close has ended every operation: the NIC forgets the process
	closing sync.Once
	ended   endErrors
}

// Name returns the name of the process.
func (p *Process) Name() Name { return p.name }

// Address returns the address of the process, which no later process of the same name has.
func (p *Process) Address() Address { return p.addr }

// NIC returns the NIC inside this program that the process is on, or nil if its NIC is a daemon.
func (p *Process) NIC() *NIC { return p.nic }

// ProcessStats counts what a process has done for its messages since it was opened. The NIC counts
// its own share: see [NIC.Counters] and `weft stat`.
type ProcessStats struct {
	Kicks uint64 // system calls that woke a resting NIC daemon; 0 with an embedded NIC
	Wakes uint64 // system calls that waited for the daemon; 0 while a goroutine polls

	CopiedOutBytes uint64 // bytes copied from the program's memory into that shared with the NIC
	CopiedInBytes  uint64 // bytes copied back
}

// Stats returns the counts of the process.
func (p *Process) Stats() (s ProcessStats) {
	if p.calls != nil {
		s.Kicks, s.Wakes = p.calls()
	}
	s.CopiedOutBytes, s.CopiedInBytes = p.p.Copied()
	return s
}

// init makes p the process with a process half.
func (p *Process) init(half *proc.Process) {
	p.p, p.of, p.names = half, p, &p.known
}

// WaitName waits until a live process has a name, and returns its address.
func (p *Process) WaitName(ctx context.Context, name Name) (Address, error) {
	return p.waitName(ctx, "wait for", name)
}

func (p *Process) waitName(ctx context.Context, op string, name Name) (Address, error) {
	if err := ended(ctx, op); err != nil {
		return Address{}, err
	}
	n, err := name.vni()
	if err != nil {
		return Address{}, &OpError{Op: op, Err: err}
	}
	d, err := p.p.Resolve(ctx, n)
	return Address{NICID(d.NIC), d.Slot, d.Gen}, opError(err)
}

// Close closes the process: operations in flight end with [ErrClosed], every process that waits for it
// is told that it is gone, and its name is free. Open regions remain memory of the program until they
// are closed, but no other process reaches them. Close of a process made by [Open] closes the NIC too.
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

// endErrors collects the errors of a process's end. The function that releases its segment adds to
// them; a call that Close has not waited for, such as that of an Inbox, may run it.
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
