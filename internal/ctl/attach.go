package ctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/idle"
)

// Attachment is a process's VNI at a daemon: its memory, and the descriptors that ring the NIC
// and wake the process.
type Attachment struct {
	Attached
	RW []byte // shared with the NIC
	RO []byte // written by the NIC only; mapped read-only

	conn *Conn
	kick int         // eventfd
	wake *os.File    // the socket that wakes us
	gone atomic.Bool // the daemon has gone, or we have closed

	closing atomic.Bool // by us

	shutting sync.Once
	shutErr  error // of shut

	mu       sync.Mutex
	regions  map[uint32][]byte
	unmapped bool
}

// Attach makes the caller a process of the daemon's NIC under name, "app/index". geometry may be
// nil. The attachment takes over the connection, and closes it.
func (c *Conn) Attach(ctx context.Context, name string, geometry *Geometry) (*Attachment, error) {
	return c.AttachAs(ctx, &Attach{Name: name, Geometry: geometry})
}

// AttachAs is like Attach, for any Attach request.
func (c *Conn) AttachAs(ctx context.Context, as *Attach) (*Attachment, error) {
	r, fds, err := c.call(ctx, &Request{Op: OpAttach, Attach: as}, 4)
	if err != nil {
		return nil, err
	}
	if r.Attached == nil {
		closeAll(fds)
		return nil, errors.New("the daemon's reply to \"attach\" lacks what was attached")
	}
	a := &Attachment{Attached: *r.Attached, conn: c, regions: make(map[uint32][]byte)}
	c.lost = a.GiveUp
	a.kick = fds[2]
	// non-blocking already, so the runtime waits for it
	a.wake = os.NewFile(uintptr(fds[3]), "weft wake")
	defer closeAll(fds[:2])
	if a.RW, err = mapMemory(fds[0], true); err != nil {
		return nil, errors.Join(err, a.Close(), a.Unmap())
	}
	if a.RO, err = mapMemory(fds[1], false); err != nil {
		return nil, errors.Join(err, a.Close(), a.Unmap())
	}
	return a, nil
}

// Alloc makes a region of n zeroed bytes and maps it. n is rounded up to whole pages, which may
// be huge.
func (a *Attachment) Alloc(ctx context.Context, n int, huge bool) (id uint32, key uint64, mem []byte, err error) {
	if n <= 0 {
		return 0, 0, nil, fmt.Errorf("alloc of %d bytes; expected at least 1", n)
	}
	r, fds, err := a.conn.call(ctx, &Request{Op: OpAlloc, Alloc: &Alloc{Bytes: int64(n), Huge: huge}}, 1)
	if err != nil {
		return 0, 0, nil, a.explain(err)
	}
	defer closeAll(fds)
	if r.Region == nil {
		return 0, 0, nil, errors.New("the daemon's reply to \"alloc\" lacks the region")
	}
	mem, err = mapMemory(fds[0], true)
	if err != nil {
		return 0, 0, nil, errors.Join(err, a.Free(ctx, r.Region.ID))
	}
	a.mu.Lock()
	a.regions[r.Region.ID] = mem
	a.mu.Unlock()
	return r.Region.ID, r.Region.Key, mem, nil
}

// Register makes a region of n bytes, from offset on, of the memory behind a descriptor. The
// descriptor stays the caller's.
func (a *Attachment) Register(
	ctx context.Context, fd int, offset int64, n int, sealed bool,
) (id uint32, key uint64, err error) {
	r, _, err := a.conn.call(ctx, &Request{Op: OpRegister,
		Given: &Register{Offset: offset, Bytes: int64(n), Sealed: sealed}}, 0, fd)
	if err != nil {
		return 0, 0, a.explain(err)
	}
	if r.Region == nil {
		return 0, 0, errors.New("the daemon's reply to \"register\" lacks the region")
	}
	return r.Region.ID, r.Region.Key, nil
}

// Part makes a region of its own, for other processes, of n bytes of a region from offset on. If
// it is sealed, others may only read it. Free ends it.
func (a *Attachment) Part(
	ctx context.Context, of uint32, offset, n int, sealed bool,
) (id uint32, key uint64, err error) {
	r, _, err := a.conn.call(ctx, &Request{Op: OpPart,
		Part: &Part{Region: of, Offset: int64(offset), Bytes: int64(n), Sealed: sealed}}, 0)
	if err != nil {
		return 0, 0, a.explain(err)
	}
	if r.Region == nil {
		return 0, 0, errors.New("the daemon's reply to \"part\" lacks the region")
	}
	return r.Region.ID, r.Region.Key, nil
}

// Free gives a region back and unmaps it. Its memory may not be used any more. Free fails with
// ErrRegionBusy while operations of the process use the region, which then stays. If the daemon
// is gone, or does not answer before ctx ends, Free unmaps the memory nevertheless.
func (a *Attachment) Free(ctx context.Context, id uint32) error {
	// Remove it from the table first: as soon as the daemon has agreed, another Alloc may get the
	// same id.
	a.mu.Lock()
	mem := a.regions[id]
	delete(a.regions, id)
	a.mu.Unlock()
	_, _, err := a.conn.call(ctx, &Request{Op: OpFree, Free: &Free{Region: id}}, 0)
	unanswered := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	silent := unanswered && (a.conn.abandoned.Load() || a.closing.Load())
	if err != nil && !silent && !errors.Is(err, ErrNICGone) && !errors.Is(err, ErrClosed) {
		if mem != nil {
			a.mu.Lock()
			a.regions[id] = mem
			a.mu.Unlock()
		}
		return err
	}
	if mem == nil {
		return nil
	}
	return unmapMemory(mem)
}

// explain turns any error of the socket into ErrNICGone if the daemon is gone, but keeps for how
// long a daemon has not answered.
func (a *Attachment) explain(err error) error {
	switch {
	case !a.gone.Load(), errors.Is(err, ErrClosed):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &silentError{err}
	}
	return ErrNICGone
}

// silentError is the error of a request that a daemon has not answered. The daemon counts as
// gone.
type silentError struct{ err error }

func (e *silentError) Error() string   { return e.err.Error() }
func (e *silentError) Unwrap() []error { return []error{ErrNICGone, e.err} }

// GiveUp treats the daemon as gone, since it is stopped or hangs. Every Wait ends with
// ErrNICGone, and so does every request, also one in flight. If the daemon goes on later, it
// finds the connection ended, and ends the process. After Close, GiveUp does nothing.
func (a *Attachment) GiveUp() {
	if a.closing.Load() {
		return
	}
	a.gone.Store(true)
	a.conn.abandoned.Store(true)
	_ = a.shut()
}

// shut closes the connection and the wake socket. That ends listen.
func (a *Attachment) shut() error {
	a.shutting.Do(func() { a.shutErr = errors.Join(a.conn.Close(), a.wake.Close()) })
	return a.shutErr
}

// leaveWithin bounds how long Close waits for the daemon.
const leaveWithin = 2 * time.Second

// Close leaves the daemon. When it returns, the process is gone for all others, its name is free,
// and every Wait ends with ErrClosed. The memory stays mapped until Unmap, for goroutines that
// may still look at it.
func (a *Attachment) Close() error {
	if a.closing.Swap(true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	// A silent daemon sees the end of the connection later.
	_, _, _ = a.conn.call(ctx, &Request{Op: OpLeave}, 0)
	return a.shut()
}

// Unmap unmaps the VNI and the remaining regions, and closes the descriptors. No goroutine may be
// inside a call any more.
func (a *Attachment) Unmap() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unmapped {
		return nil
	}
	a.unmapped = true
	var errs []error
	for id, mem := range a.regions {
		errs = append(errs, unmapMemory(mem))
		delete(a.regions, id)
	}
	for _, mem := range [][]byte{a.RW, a.RO} {
		if mem != nil {
			errs = append(errs, unmapMemory(mem))
		}
	}
	a.RW, a.RO = nil, nil
	closeAll([]int{a.kick})
	return errors.Join(errs...)
}

// Hooks gives access to the words of the VNI that waiting needs. Package ctl does not know their
// layout.
type Hooks struct {
	Listening func() bool // reports whether the NIC looks at the command queue unasked
	Sleeping  func(bool)  // tells the NIC whether it has to wake us
	// WaitsAt tells at which processor we look for a completion, or -1 when we stop. It may be
	// nil.
	WaitsAt func(int)
	Awake   time.Duration // how long to look before sleeping; zero: idle.Awake
}

// Waiter is how goroutines of an attached process wait. They look at their doorbells for a while,
// and then sleep until the NIC wakes the process.
type Waiter struct {
	a       *Attachment
	hooks   Hooks
	looking atomic.Bool // one goroutine spins or yields for all
	pace    idle.Pace   // of that goroutine
	at      int         // its processor when it last asked; -1: unknown
	giveWay func()      // letRun, made once
	waiters idle.Waiters
	closed  atomic.Bool

	kicks, wakes atomic.Uint64 // system calls
}

// SystemCalls returns how many system calls the process has made so far: kicks to make the NIC
// look at its commands, and reads of wakes.
func (w *Waiter) SystemCalls() (kicks, wakes uint64) { return w.kicks.Load(), w.wakes.Load() }

// Waiter starts to listen for wake-ups. It is called once.
func (a *Attachment) Waiter(h Hooks) *Waiter {
	if h.Awake == 0 {
		h.Awake = idle.Awake
	}
	if h.WaitsAt == nil {
		h.WaitsAt = func(int) {}
	}
	w := &Waiter{a: a, hooks: h, at: -1}
	w.giveWay = w.letRun
	w.waiters.Sleeping = h.Sleeping
	go w.listen()
	return w
}
