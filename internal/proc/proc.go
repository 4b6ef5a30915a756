// Package proc is the process half of Weft: operations on a segment of internal/vni, and the
// waiting for their end.
//
//	         lock                                    no lock                 no lock
//	┌──────────────────────────┐               ┌────────────────┐     ┌────────────────────┐
//	│ take a context           │   doorbell    │ Waiter.Wait    │     │ copy out, if staged│
//	│ fill it in, post         │ ────────────► │ until it rings │ ──► │ release the context│
//	└──────────────────────────┘  kick if the  └────────────────┘     └────────────────────┘
//	  staged: unlock to copy in   NIC does not    │ ctx ended
//	                              listen          └─► Cancel, and wait on: the NIC always answers
//
// The place of an operation's bytes depends on the operation:
//
//	a message of at most limits.ShortMessage bytes    in the context region (QNIX-18)
//	direct segment (NIC in this address space)        in the caller's memory; no copy
//	wholly in regions from Alloc                      there; no copy
//	otherwise, if the pool has a run of pages         in the pool (QNIX-25), one copy
//	otherwise, if a goroutine waits for it            piece by piece through a part of the pool,
//	                                                  one copy; refill.go
//	otherwise                                         in a temporary region, one copy; a few are
//	                                                  kept for reuse
//
// Any number of goroutines may call anything. One short lock orders posting; each operation waits
// for its own doorbell. If all contexts are taken, blocking forms wait, and start forms fail with
// ErrQueueFull.
//
// proc starts no goroutine and reads no clock, so the simulator can run it in virtual time. All
// waiting goes through the Waiter.
package proc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/vni"
)

// Waiter is the way in which a process waits: it polls the NIC in this process, parks until a
// daemon wakes it, or yields to a simulator. All methods may be called from any goroutine.
type Waiter interface {
	// Wait returns nil once ready returns true, ctx's error if ctx ends before that, and
	// ErrNICGone if no doorbell will ring any more. ready only loads atomics. Wait may call ready
	// from any goroutine until it returns, and not after that. Two kinds of events make ready
	// true. After a doorbell, an event or the end of the segment, the NIC wakes sleepers. After a
	// change in this process, Wake is called.
	Wait(ctx context.Context, ready func() bool) error

	// Kick notifies the NIC of a command that was posted while the NIC may not have been
	// listening. It does not block.
	Kick()

	// Wake makes every Wait call its ready again, because something in this process has changed.
	// It does not block.
	Wake()
}

// Memory creates regions: memory that both this process and its NIC can access.
type Memory interface {
	// Alloc creates a region of n zeroed bytes, in huge pages or in ordinary ones.
	Alloc(n int, huge bool) (id uint32, key uint64, mem []byte, err error)
	// Register creates a region from memory of the caller, which the caller keeps. If sealed,
	// other processes may only read it. The memory lies in the file of, or in no file if of is
	// nil.
	Register(mem []byte, of *File, sealed bool) (id uint32, key uint64, err error)
	// Part makes n bytes of a region accessible to others as a separate region. If sealed, they
	// may only read it. Free ends it, and so does the end of the region.
	Part(of uint32, offset, n int, sealed bool) (id uint32, key uint64, err error)
	// Free ends a region. If operations of the process use the region, Free fails with
	// ErrRegionInUse, and the region stays. If the NIC is gone, Free only has to release the
	// memory.
	Free(id uint32) error
}

// Options are the optional arguments of New. The zero value is valid.
type Options struct {
	// Released is called once, when the process is closed, no call is inside and the last region
	// is closed. From then on nothing refers to the segment.
	Released func()

	// Patience returns a context that limits the NIC's time to answer a Cancel. Nil means no
	// limit, for a NIC that cannot stop while this process runs.
	Patience func() (context.Context, context.CancelFunc)

	// GivenUp is called when the NIC counts as gone. It may be called more than once.
	GivenUp func()

	// Began is called when a start form has posted and the NIC looks at the queue by itself. The
	// caller continues, and another goroutine may be polling. Nil if no goroutine of this process
	// polls.
	Began func()

	// Straight is the straight way to a NIC in this address space; nil if there is none.
	Straight vni.Straight

	// NewGate creates the gates of the process. Nil means gates of the machine's time.
	NewGate func() Gate

	// Names lists the live processes of the fabric, as far as the NIC knows them.
	Names func(ctx context.Context) ([]vni.Name, error)
}

// The two lists of contexts.
const (
	sendList    = 0
	receiveList = 1
)

// Process is the process half of one segment.
type Process struct {
	vp      *vni.Process
	w       Waiter
	mem     Memory
	opts    Options
	id      vni.Identity
	direct  bool
	poolMem []byte
	pieces  int // descriptors, or slices, that one operation may name (K)

	// reserve is the room in the command queue that operations leave for Cancels and Refills, so
	// that these can always be posted. Each context needs room for one Cancel: between two
	// operations, at most one Cancel is posted for each operation in flight. An operation has at
	// most one unread Refill.
	reserve int

	copied copied

	answered answered

	ops [2][]Op // for blocking calls: one for each context, to avoid allocations

	closed  atomic.Bool  // set under mu: no operation begins any more
	dead    atomic.Bool  // the waiter says that the NIC is gone
	watched atomic.Int32 // number of waiters for a free context
	inside  atomic.Int32 // calls that access the segment without a context; changed under mu

	released atomic.Bool // set under mu: no call accesses the segment any more
	// looks counts the calls of Op.Ended, which takes no lock. letGo reads looks after it has set
	// released, and Ended reads released after it has incremented looks.
	looks atomic.Int32

	// Conditions for Waiter.Wait, created once.
	idle func() bool
	free [lacks]func() bool // by the lacking resource

	lines [lacks]Gate // by the lacking resource: open for the first waiter in line

	events *Watcher // for NextEvent

	splits atomic.Uint32 // number of splits of groups that the process has entered

	started [2][]atomic.Pointer[Op] // by context: operations of start forms; changed under mu

	// sharing serialises the calls that create or end a part, register memory, or end a region,
	// because ids are reused. It is locked before mu.
	sharing sync.Mutex

	registered atomic.Pointer[registered] // memory that may be unmapped; nil: none

	mu            sync.Mutex
	uses          []uint16      // by send context: how often it was taken, for tokens
	straightCalls atomic.Uint32 // number of calls without a context, also for tokens
	pool          pool
	spare         []temporary // temporary regions that no operation uses
	refills       []*refill   // that no operation uses
	regions       []*Region   // open ones, by address
	inboxes       int         // number of Inboxes that keep a context
}

// New returns the process half of a segment that is registered at a NIC. If seg is direct,
// messages are sent from and received into the caller's memory.
func New(seg *vni.Segment, w Waiter, mem Memory, opts Options) (*Process, error) {
	g := seg.Geometry()
	// Receives may stay for ever. Although the reserve holds room for the Cancels of all
	// contexts, a queue without room must hold more than receives. Then some operation in it
	// completes and wakes the goroutines that wait for room.
	if least := 3*g.Contexts + 25; g.Commands < least {
		return nil, fmt.Errorf("weft: %d commands for %d contexts: expected at least %d", g.Commands, g.Contexts, least)
	}
	p := &Process{
		vp: seg.Process(), w: w, mem: mem, opts: opts, direct: seg.Direct(), poolMem: seg.Pool(), pieces: g.Descriptors,
		reserve: 2 * g.Contexts, uses: make([]uint16, g.Contexts), pool: newPool(g.PoolPages),
	}
	for n := refills(g.Commands, g.Contexts, g.Descriptors); n > 0 && !p.direct; n-- {
		p.refills = append(p.refills, new(refill))
	}
	if n := len(p.refills); n > 0 {
		// The known head is up to 7 entries late, and each refill has one unread entry.
		p.reserve += n + 8
	}
	p.id = p.vp.Identity()
	p.answered.init(p.id.Slot, p.id.Gen)
	for i := range p.uses {
		p.uses[i] = firstCount(p.id.Gen)
	}
	for l := range p.ops {
		p.ops[l] = make([]Op, g.Contexts)
		p.started[l] = make([]atomic.Pointer[Op], g.Contexts)
		for i := range p.ops[l] {
			o := &p.ops[l][i]
			o.p, o.receive, o.ctx, o.ready = p, l == receiveList, i, o.stirred
		}
	}
	p.idle = p.isIdle
	p.events = p.watcher(p.vp.Events())
	if opts.NewGate == nil {
		p.opts.NewGate = NewGate
	}
	for l := range p.lines {
		p.lines[l] = p.opts.NewGate()
		p.lines[l].Open()
	}
	p.free = [lacks]func() bool{
		lackSend:    func() bool { return p.anyFree(sendList) || p.over() },
		lackReceive: func() bool { return p.anyFree(receiveList) || p.over() },
	}
	return p, nil
}

// Identity returns the process's slot, generation and name, and its NIC.
func (p *Process) Identity() vni.Identity { return p.id }

// usable returns the error that stops every new operation, if any. The caller holds mu.
func (p *Process) usable() error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.nicGone()
}

// nicGone returns the reason why no doorbell will ring any more, if there is one.
func (p *Process) nicGone() error {
	if why := p.vp.Gone(); why != vni.StatusOK {
		return goneError(why)
	}
	if p.dead.Load() {
		return ErrNICGone
	}
	return nil
}

// patience returns a context that limits the NIC's time for work that it does at once.
func (p *Process) patience() (context.Context, context.CancelFunc) {
	if p.opts.Patience == nil {
		return context.Background(), func() {}
	}
	return p.opts.Patience()
}

// over reports whether it is useless to wait for anything but operations in flight.
func (p *Process) over() bool {
	return p.closed.Load() || p.dead.Load() || p.vp.Gone() != vni.StatusOK
}

// fail records that a Wait has found the NIC gone. Every operation in flight ends.
func (p *Process) fail() {
	p.dead.Store(true)
	if p.opts.GivenUp != nil {
		p.opts.GivenUp()
	}
	p.w.Wake()
}
