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

// Attachment is a process's VNI at a daemon: its memory, and the ways to ring and to be woken.
type Attachment struct {
	Attached
	RW []byte // shared with the NIC
	RO []byte // written by the NIC only; mapped read-only

	conn *Conn
	kick int         // eventfd
	wake *os.File    // the socket that wakes
	gone atomic.Bool // nothing comes any more

	closing atomic.Bool // by us

	shutting sync.Once
	shutErr  error // of what shut closed

	mu       sync.Mutex
	regions  map[uint32][]byte
	unmapped bool
}

// Attach makes the caller a process of the daemon's NIC under name, "app/index". geometry may be nil. The connection
// becomes the attachment's, which closes it.
func (c *Conn) Attach(ctx context.Context, name string, geometry *Geometry) (*Attachment, error) {
	return c.AttachAs(ctx, &Attach{Name: name, Geometry: geometry})
}

// AttachAs is Attach of any request.
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
	a.wake = os.NewFile(uintptr(fds[3]), "weft wake") // non-blocking already, so the runtime waits for it
	defer closeAll(fds[:2])
	if a.RW, err = mapMemory(fds[0], true); err != nil {
		return nil, errors.Join(err, a.Close(), a.Unmap())
	}
	if a.RO, err = mapMemory(fds[1], false); err != nil {
		return nil, errors.Join(err, a.Close(), a.Unmap())
	}
	return a, nil
}

// Alloc makes n bytes of zeroed memory that the NIC knows, mapped here. n is rounded up to whole pages, which may be huge.
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

// Register has the NIC map n bytes from offset on of the memory behind a descriptor, which stays the caller's.
func (a *Attachment) Register(ctx context.Context, fd int, offset int64, n int, sealed bool) (id uint32, key uint64, err error) {
	r, _, err := a.conn.call(ctx, &Request{Op: OpRegister, Given: &Register{Offset: offset, Bytes: int64(n), Sealed: sealed}}, 0, fd)
	if err != nil {
		return 0, 0, a.explain(err)
	}
	if r.Region == nil {
		return 0, 0, errors.New("the daemon's reply to \"register\" lacks the region")
	}
	return r.Region.ID, r.Region.Key, nil
}

// Part makes n bytes of a region from offset on one of their own for others, which they may only read if it is sealed. Free ends it.
func (a *Attachment) Part(ctx context.Context, of uint32, offset, n int, sealed bool) (id uint32, key uint64, err error) {
	r, _, err := a.conn.call(ctx, &Request{Op: OpPart, Part: &Part{Region: of, Offset: int64(offset), Bytes: int64(n), Sealed: sealed}}, 0)
	if err != nil {
		return 0, 0, a.explain(err)
	}
	if r.Region == nil {
		return 0, 0, errors.New("the daemon's reply to \"part\" lacks the region")
	}
	return r.Region.ID, r.Region.Key, nil
}

// Free gives a region back and unmaps it; its memory may not be used any more. While operations of the process are in it,
// Free fails with ErrRegionBusy and the region stays. When the daemon is gone, or does not answer before ctx ends, the memory is unmapped all the same.
func (a *Attachment) Free(ctx context.Context, id uint32) error {
	// Out of the table first: as soon as the daemon has agreed, another Alloc may get the same id.
	a.mu.Lock()
	mem := a.regions[id]
	delete(a.regions, id)
	a.mu.Unlock()
	_, _, err := a.conn.call(ctx, &Request{Op: OpFree, Free: &Free{Region: id}}, 0)
	silent := errors.Is(err, context.DeadlineExceeded) && (a.conn.abandoned.Load() || a.closing.Load())
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

// explain prefers "gone" to whatever the socket said, but for how long a daemon has not answered.
func (a *Attachment) explain(err error) error {
	switch {
	case !a.gone.Load(), errors.Is(err, ErrClosed):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &silentError{err}
	}
	return ErrNICGone
}

// silentError is of the request by which a daemon counts as gone, since it has not answered it.
type silentError struct{ err error }

func (e *silentError) Error() string   { return e.err.Error() }
func (e *silentError) Unwrap() []error { return []error{ErrNICGone, e.err} }

// GiveUp has the daemon count as gone, as one does that is stopped or hangs: every Wait ends with ErrNICGone, and every request, those under way
// among them. A daemon that goes on later finds the connection at its end, and the process gone. After Close it does nothing.
func (a *Attachment) GiveUp() {
	if a.closing.Load() {
		return
	}
	a.gone.Store(true)
	a.conn.abandoned.Store(true)
	_ = a.shut()
}

// shut closes the connection, and the wake socket, whose end listen finds.
func (a *Attachment) shut() error {
	a.shutting.Do(func() { a.shutErr = errors.Join(a.conn.Close(), a.wake.Close()) })
	return a.shutErr
}

// leaveWithin bounds how long Close waits for the daemon.
const leaveWithin = 2 * time.Second

// Close leaves the daemon: the process is gone for all others and its name is free when Close returns; every Wait ends
// with ErrClosed. The memory stays mapped until Unmap, for goroutines that may still look at it.
func (a *Attachment) Close() error {
	if a.closing.Swap(true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	_, _, _ = a.conn.call(ctx, &Request{Op: OpLeave}, 0) // a daemon that does not answer sees the end of the connection
	return a.shut()
}

// Unmap unmaps the VNI and what regions are left, and closes the rest. No goroutine may be inside a call any more.
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

// Hooks are the words of the VNI that waiting needs. Package ctl does not know the layout.
type Hooks struct {
	Listening func() bool   // whether the NIC looks at the command queue unasked
	Sleeping  func(bool)    // says to the NIC that it has to wake us, or no longer
	WaitsAt   func(int)     // says at which processor we look for what we wait for; -1: we no longer do. May be nil
	Awake     time.Duration // how long to look before sleeping; zero: idle.Awake
}

// Waiter is how goroutines of an attached process wait: they look at their doorbells for a while, then sleep until the
// NIC wakes the process.
type Waiter struct {
	a       *Attachment
	hooks   Hooks
	looking atomic.Bool // a goroutine spins or yields for all; one is enough
	pace    idle.Pace   // of that one
	at      int         // the processor at which that was when it last asked; -1: unknown
	giveWay func()      // letRun, made once
	waiters idle.Waiters
	closed  atomic.Bool

	kicks, wakes atomic.Uint64 // system calls
}

// SystemCalls counts those that the process has made so far: to have the NIC look at its commands, and to hear that it was woken.
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
