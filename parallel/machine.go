package parallel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/mutate"
)

// Machine is a parallel machine: the ranks of a job. Each rank runs the same program. All
// operations of a machine are collective: every rank calls the same operations in the same order,
// with matching arguments.
//
// If an operation fails at one rank, it fails at every rank, and so do all later operations, with
// the same reason. Then [Machine.Shrink] makes a new machine of the ranks that are left.
//
// One goroutine at a time may be in an operation of a machine. An operation in a second goroutine
// fails with [ErrBusy].
type Machine struct {
	rank, size int
	epoch      uint32
	w          wire // nil if there is one rank
	p          *weft.Process
	group      *weft.Group
	owned      bool // Close closes the process
	initial    bool // Init made the machine

	busy   atomic.Bool
	closed bool
	fault  error // the machine has failed
	broken error // a call that does not communicate has failed: the next operation fails

	seq        uint64                  // number of the last operation that began
	phase      uint32                  // number of the current exchange in that operation
	checked    bool                    // the next rank knows the current operation
	lower      uint64                  // last operation of the lower rank that is known here
	now        description             // the current operation
	past       [historyLen]description // the last operations, by their numbers
	wants      []*want                 // data that exchanges in flight expect
	early      []held                  // messages of later operations or phases
	head       [headerLen]byte         // header of the message that is posted
	heardFault bool                    // another rank has reported the fault
	shapes     uint32                  // number of shapes made so far
	defect     mutate.ParallelDefect   // for tests
}

// initialized is true while a machine from Init is open.
var initialized atomic.Bool

// Init returns the machine of the job in which a launcher, such as weft run, has started this
// program. It waits until all ranks have joined. If the launcher names a daemon, the rank uses
// this daemon. Otherwise the rank opens its own NIC. If no launcher started the program, the
// machine has one rank and needs no network.
//
// Close the machine at the end. A program has one machine from Init at a time: a second Init fails
// with [ErrInitialized]. Init also fails with the errors of [weft.Attach], [weft.Open] and
// [weft.Process.World].
func Init(ctx context.Context) (*Machine, error) {
	if !initialized.CompareAndSwap(false, true) {
		return nil, &RankError{-1, "Init", ErrInitialized}
	}
	m, err := fromLauncher(ctx)
	if err != nil {
		initialized.Store(false)
		return nil, fmt.Errorf("parallel: Init: %w", err)
	}
	m.initial = true
	return m, nil
}

func fromLauncher(ctx context.Context) (*Machine, error) {
	var p *weft.Process
	var err error
	if os.Getenv("WEFT_SOCKET") != "" {
		p, err = weft.Attach(ctx, weft.AttachConfig{})
	} else {
		p, err = weft.Open(ctx, weft.Config{})
	}
	if errors.Is(err, weft.ErrNoLauncher) {
		return newMachine(nil, nil, nil, 0), nil
	}
	if err != nil {
		return nil, err
	}
	g, err := p.World(ctx)
	if err == nil {
		var m *Machine
		if m, err = On(ctx, p, g); err == nil {
			m.owned = true
			return m, nil
		}
	}
	return nil, errors.Join(err, p.Close())
}

// On returns the machine whose ranks are the members of a group. Every member must call On.
// Programs that attach to their NIC themselves use On, and so do programs in package sim. The
// machine uses port 0xff02 of the process p, and two groups that it makes itself. A process has
// one machine at a time: a second On fails with [ErrInitialized]. Close does not close p or g.
func On(ctx context.Context, p *weft.Process, g *weft.Group) (*Machine, error) {
	w, err := newWeftWire(ctx, p, g)
	if errors.Is(err, weft.ErrPortInUse) {
		err = &RankError{g.Rank(), "On", ErrInitialized}
	}
	if err != nil {
		return nil, err
	}
	return newMachine(w, p, g, w.epoch()), nil
}

// newMachine returns the machine of a wire, or a machine of one rank if w is nil.
func newMachine(w wire, p *weft.Process, g *weft.Group, epoch uint32) *Machine {
	m := &Machine{size: 1, w: w, p: p, group: g, epoch: epoch}
	if w != nil {
		m.rank, m.size = w.rank(), w.size()
	}
	return m
}

// Rank returns the rank of this process, 0 to Size−1.
func (m *Machine) Rank() int { return m.rank }

// Size returns the number of ranks.
func (m *Machine) Size() int { return m.size }

// Group returns the group of all ranks, for operations of package weft. It is nil if the machine
// has one rank and no network.
func (m *Machine) Group() *weft.Group { return m.group }

// Process returns the process of this rank. It is nil if the machine has one rank and no network.
func (m *Machine) Process() *weft.Process { return m.p }

// String returns the rank and the number of ranks.
func (m *Machine) String() string { return fmt.Sprintf("rank %d of %d", m.rank, m.size) }

// Err returns the error with which the machine has failed, or nil.
func (m *Machine) Err() error { return m.fault }

// Barrier waits until every rank has called Barrier.
func (m *Machine) Barrier(ctx context.Context) error {
	if err := m.begin(ctx, describe(opBarrier, noAxis, 0, 0)); err != nil {
		return err
	}
	return m.end(ctx, m.gatherOnce(ctx))
}

// gatherOnce waits until every rank has called it: in round k, a rank waits for the rank 2ᵏ below
// it.
func (m *Machine) gatherOnce(ctx context.Context) error {
	for d := 1; d < m.size; d *= 2 {
		wants := []want{{from: (m.rank + m.size - d) % m.size}}
		if err := m.exchange(ctx, []piece{{to: (m.rank + d) % m.size}}, wants); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the machine. Every rank must call it: Close waits for the other ranks, unless the
// machine has failed. If Init made the machine, Close also closes the process. A second Close does
// nothing.
func (m *Machine) Close() error {
	if m.closed {
		return nil
	}
	ctx := context.Background()
	err := m.fault
	if err == nil {
		if err = m.begin(ctx, describe(opClose, noAxis, 0, 0)); err != nil {
			if errors.Is(err, ErrBusy) {
				return err
			}
		} else {
			err = m.end(ctx, m.gatherOnce(ctx))
		}
	} else {
		err = nil // the operation already returned the error to the program
	}
	m.closed = true
	if m.w != nil {
		err = errors.Join(err, m.w.leave(ctx, m.fault == nil))
	}
	return errors.Join(err, m.release())
}

// release releases the resources that Init acquired.
func (m *Machine) release() error {
	var err error
	if m.owned {
		err = m.p.Close()
	}
	if m.initial {
		initialized.Store(false)
	}
	return err
}

// Shrink returns the machine of the remaining ranks, and ends this machine. Every remaining rank
// must call Shrink, usually after [ErrRankGone]. The new machine renumbers its ranks. It knows no
// shape and no variable of the old one: make them again and call [Load], or compute them again.
//
// If one more rank ends while the others shrink, Shrink continues without that rank. At some
// ranks Shrink may have returned before. The machine that it returned there fails with
// [ErrRankGone]. When these ranks call Shrink again, all remaining ranks get the same machine.
//
// If ctx ends, Shrink fails at this rank. The other ranks wait until this rank calls Shrink again
// or closes its process.
func (m *Machine) Shrink(ctx context.Context) (*Machine, error) {
	if m.closed {
		return nil, &RankError{m.rank, "Shrink", ErrClosed}
	}
	if !m.busy.CompareAndSwap(false, true) {
		return nil, &RankError{m.rank, "Shrink", ErrBusy}
	}
	defer m.busy.Store(false)
	if m.w == nil {
		m.closed = true
		n := newMachine(nil, nil, nil, m.epoch+1)
		n.initial = m.initial
		return n, nil
	}
	w, epoch, err := m.w.shrink(ctx)
	if err != nil {
		if m.fault == nil {
			m.fault = &RankError{m.rank, "Shrink", err}
		}
		return nil, &RankError{m.rank, "Shrink", err}
	}
	m.closed = true
	n := newMachine(w, m.p, nil, epoch)
	if g, ok := w.(interface{ world() *weft.Group }); ok {
		n.group = g.world()
	}
	n.owned, n.initial, n.defect = m.owned, m.initial, m.defect
	return n, nil
}

const (
	// tellWithin is the time for which a failing rank tries to tell the others.
	tellWithin = time.Second

	// lastWordsWithin is the time for which a rank waits for the reason why another rank has
	// left.
	lastWordsWithin = 200 * time.Millisecond
)

// within returns a context that ends after a duration.
func (m *Machine) within(d time.Duration) (context.Context, context.CancelFunc) {
	if m.p != nil {
		return m.p.Runtime().WithTimeout(context.Background(), d)
	}
	return context.WithTimeout(context.Background(), d)
}
