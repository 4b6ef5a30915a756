// Package proc is the process half of Weft: operations on a segment of internal/vni, and the waiting for them.
//
//	         lock                                    no lock                 no lock
//	┌──────────────────────────┐               ┌────────────────┐     ┌────────────────────┐
//	│ take a context           │   doorbell    │ Waiter.Wait    │     │ copy out, if staged│
//	│ fill it in, post         │ ────────────► │ until it rings │ ──► │ release the context│
//	└──────────────────────────┘  kick if the  └────────────────┘     └────────────────────┘
//	  staged: unlock to copy in   NIC does not    │ ctx ended
//	                              listen          └─► Cancel, and wait on: the NIC always answers
//
// Where the bytes of an operation are:
//
//	a message of at most limits.ShortMessage bytes    in the context region (QNIX-18)
//	direct segment (NIC in this address space)        where the caller has them; no copy
//	wholly in regions from Alloc                      there; no copy
//	else, if the pool has a run of pages              in the pool (QNIX-25), one copy
//	else, if a goroutine waits for it                 piece by piece through a part of the pool, one copy; refill.go
//	else                                              in a temporary region, one copy; a few are kept for the next
//
// Any number of goroutines may call anything. One short lock orders posting; each operation waits for its own doorbell.
// Blocking forms wait when all contexts are taken; start forms fail with ErrQueueFull.
//
// proc starts no goroutine and reads no clock, so that the simulator can run it under virtual time: all waiting is the
// Waiter's.
package proc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/vni"
)

// Waiter is how a process waits: by polling the NIC inside it, by parking until a daemon wakes it, or by yielding to a
// simulator. All methods are called from any goroutine.
type Waiter interface {
	// Wait returns nil once ready returns true, ctx's error if ctx ends before that, and ErrNICGone if no doorbell
	// will ring any more. ready only loads atomics; Wait may call it from any goroutine until it returns, and not
	// after. What makes ready true is a doorbell, an event or the end of the segment, after which the NIC wakes
	// sleepers, or something in this process, after which Wake is called.
	Wait(ctx context.Context, ready func() bool) error

	// Kick says that a command was posted while the NIC may not have been listening. It does not block.
	Kick()

	// Wake has every Wait look at its ready again: something in this process has changed. It does not block.
	Wake()
}

// Memory makes regions: memory that this process and its NIC both reach.
type Memory interface {
	// Alloc makes a region of n bytes, zeroed, in huge pages or in ordinary ones.
	Alloc(n int, huge bool) (id uint32, key uint64, mem []byte, err error)
	// Register makes a region of memory that the caller has, of which others may only read if it is sealed. It stays the caller's. It lies in a
	// file, or of is nil.
	Register(mem []byte, of *File, sealed bool) (id uint32, key uint64, err error)
	// Part makes n bytes of a region reachable by others as one of its own, to be read only if sealed. Free ends it, and so does the
	// end of the region.
	Part(of uint32, offset, n int, sealed bool) (id uint32, key uint64, err error)
	// Free ends a region. It fails with ErrRegionInUse, and the region stays, while operations of the process use it. If the NIC is gone it only
	// has to let go of the memory.
	Free(id uint32) error
}

// Options are what New may be told. The zero value is good.
type Options struct {
	// Released is called once, when the process is closed, no call is inside and the last region is closed: nothing
	// refers to the segment any more.
	Released func()

	// Patience bounds how long the NIC may take to answer a Cancel, by a context. Nil: for ever, of a NIC that cannot stop
	// while this process runs.
	Patience func() (context.Context, context.CancelFunc)

	// GivenUp is called when the NIC counts as gone. It may be called again.
	GivenUp func()

	// Began is called when a start form has posted and the NIC looks at the queue by itself: the caller goes on, and another goroutine may be polling.
	// Nil where none of this process does.
	Began func()

	// Straight is the straight way to a NIC in this address space; nil if there is none.
	Straight vni.Straight

	// NewGate makes the gates of the process. Nil: those of the machine's time.
	NewGate func() Gate

	// Names lists the processes of the fabric that live, as the NIC knows them.
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

	// reserve is the room in the command queue that operations leave for Cancels, so that one can always be posted:
	// one for every context. Between two operations no more Cancels are posted than there are operations under way. And
	// for Refills, of which no operation has more than one that is not read.
	reserve int

	copied copied

	answered answered

	ops [2][]Op // of blocking calls: one for each context, so that they allocate nothing

	closed  atomic.Bool  // set under mu: no operation is begun any more
	dead    atomic.Bool  // the waiter says that the NIC is gone
	watched atomic.Int32 // how many wait for a context to become free
	inside  atomic.Int32 // calls that look at the segment without owning a context; changed under mu

	released atomic.Bool  // set under mu: no call looks at the segment any more
	looks    atomic.Int32 // of Op.Ended, which takes no lock: looked at once released is set, as they look at released behind this

	// What is waited for, made once.
	idle func() bool
	free [lacks]func() bool // by what was lacking

	lines [lacks]Gate // by what is lacking: open for the first of those that wait for it

	events *Watcher // of NextEvent

	splits atomic.Uint32 // how many splits of groups the process has entered

	started [2][]atomic.Pointer[Op] // by context: operations of start forms; changed under mu

	sharing sync.Mutex // one at a time makes or ends a part, registers memory, or ends a region: ids are used again. Before mu

	registered atomic.Pointer[registered] // memory that may go away; nil: none

	mu            sync.Mutex
	uses          []uint16      // by send context: how often it was taken, for tokens
	straightCalls atomic.Uint32 // those without a context, for the same
	pool          pool
	spare         []temporary // temporary regions that no operation uses
	refills       []*refill   // that no operation has
	regions       []*Region   // open ones, by address
	inboxes       int         // that keep a context
}

// New makes the process half of a segment that is registered at a NIC. If seg is direct, messages go to and from the
// caller's own memory.
func New(seg *vni.Segment, w Waiter, mem Memory, opts Options) (*Process, error) {
	g := seg.Geometry()
	// With all contexts' Cancels in reserve, a queue without room must hold more than receives, which may stay for
	// ever: then something in it completes, and the goroutines that wait for room are woken.
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
		p.reserve += n + 8 // the head that we see is up to 7 entries late, and each has one unread
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

// Identity is the process's slot, generation and name, and its NIC.
func (p *Process) Identity() vni.Identity { return p.id }

// usable says why no operation can be begun, if none can. Under mu.
func (p *Process) usable() error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.nicGone()
}

// nicGone says why no doorbell will ring, if none will.
func (p *Process) nicGone() error {
	if why := p.vp.Gone(); why != vni.StatusOK {
		return goneError(why)
	}
	if p.dead.Load() {
		return ErrNICGone
	}
	return nil
}

// patience is how long the NIC may take with what it does at once.
func (p *Process) patience() (context.Context, context.CancelFunc) {
	if p.opts.Patience == nil {
		return context.Background(), func() {}
	}
	return p.opts.Patience()
}

// over reports whether waiting for anything but operations under way has lost its sense.
func (p *Process) over() bool {
	return p.closed.Load() || p.dead.Load() || p.vp.Gone() != vni.StatusOK
}

// fail notes that a Wait has found the NIC gone. Every operation under way ends.
func (p *Process) fail() {
	p.dead.Store(true)
	if p.opts.GivenUp != nil {
		p.opts.GivenUp()
	}
	p.w.Wake()
}
