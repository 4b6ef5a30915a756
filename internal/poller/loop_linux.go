package poller

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/vni"
	"golang.org/x/sys/unix"
)

// Loop runs a daemon's engine: one thread that polls, and parks in epoll.
//
//	        work, or idle for a moment          idle, and no process is listened to
//	poll ◄──────────────────────────── poll ──────────────────────────────► parked in epoll until
//	  │                                                  · a frame          (the link, by level)
//	  └── every few turns: which processes have rung?    · a process rings  (its eventfd, by edge)
//	                                                     · Do               (an eventfd, by edge)
//	                                                     · the next deadline
//
// A process's eventfd is watched edge-triggered and never read: its other end could make a read
// block (decision 11).
type Loop struct {
	engine Engine
	cfg    LoopConfig

	mu sync.Mutex // guards the engine; the loop holds it from its start to its end
	jobs
	dirty  atomic.Bool // something changed that the loop must look at before or while it parks
	parked atomic.Bool

	epoll int
	nudge int // eventfd, used only by the loop

	pace   idle.Pace
	yield  func()
	events [64]unix.EpollEvent
	turns  uint
	looks  uint // polls that found nothing
	timing timing

	// See beside_linux.go.
	neighbours
	shares    func() bool
	processor func() int
	move      func(processor int)
}

// LoopConfig holds a Loop's settings other than its engine.
type LoopConfig struct {
	// The capabilities of the engine's link: its Fd or Notify announces frames.
	Link  link.Caps
	Awake time.Duration // zero: idle.Awake

	// Turn is called after each poll, under the lock; it may be nil.
	Turn func(now clock.Time)

	Page vni.LoopPage // where measurements are published; may be zero
}

// lookEvery is the number of turns of a busy loop from one look at the bells to the next.
const lookEvery = 16 // an epoll_wait that finds nothing costs as much as a poll of an idle link

// looksPerYield is how many polls that find nothing a loop makes before it lets others run, if
// it shares its core: a look is cheaper than a switch to a process and back. With four, the
// processes would wait for longer than is gained.
const looksPerYield = 2

// nudgeToken and linkToken stand for the loop's own descriptors in epoll's events; slots stand
// for processes.
const (
	nudgeToken = -1
	linkToken  = -2
)

// NewLoop prepares a loop. Run runs it.
func NewLoop(e Engine, cfg LoopConfig) (*Loop, error) {
	if cfg.Awake == 0 {
		cfg.Awake = idle.Awake
	}
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("poller: epoll: %w", err)
	}
	l := &Loop{engine: e, cfg: cfg, epoll: ep, nudge: -1, timing: timing{page: cfg.Page},
		yield: idle.YieldThread, processor: idle.Processor, move: idle.MoveTo}
	l.shares = l.pace.Shares
	if l.nudge, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("poller: eventfd: %w", err), l.Close())
	}
	if err := l.watch(l.nudge, unix.EPOLLIN|unix.EPOLLET, nudgeToken); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if fd := linkFd(cfg.Link); fd >= 0 {
		if err := l.watch(fd, unix.EPOLLIN, linkToken); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if cfg.Link.Notify != nil {
		cfg.Link.Notify(l.wake)
	}
	return l, nil
}

// watch adds a descriptor to epoll.
func (l *Loop) watch(fd int, events uint32, token int32) error {
	ev := unix.EpollEvent{Events: events, Fd: token}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("poller: watch descriptor %d: %w", fd, err)
	}
	return nil
}

// AddBell watches the eventfd by which the process at slot rings. An earlier ring counts.
func (l *Loop) AddBell(fd int, slot uint16) error {
	return l.watch(fd, unix.EPOLLIN|unix.EPOLLET, int32(slot))
}

// RemoveBell ends that. Closing the descriptor would not: the process has another for the same
// eventfd.
func (l *Loop) RemoveBell(fd int) error { return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// Kick makes the loop poll soon, once more than it would. It does not wait for that poll.
func (l *Loop) Kick() { l.wake() }

// wake makes the loop poll again.
func (l *Loop) wake() {
	l.dirty.Store(true)
	if l.parked.Load() {
		_, _ = unix.Write(l.nudge, one)
	}
}

// Run polls until ctx is done. It locks its goroutine to its thread.
func (l *Loop) Run(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	idle.PreciseTimers()
	idle.Enter()
	defer idle.Leave()
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		l.wake()
	})
	defer func() {
		if !stop() {
			<-woken // or it could signal a descriptor that is another file's by then
		}
	}()
	l.open() // before the engine is ours: Do takes the two locks in this order
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.finish()
	done := ctx.Done()
	for since := Now(); ; {
		l.dirty.Store(false) // before looking at anything that may change
		if isDone(done) {
			return
		}
		now := Now()
		if l.back == 0 {
			l.returned(now)
		}
		work, next := l.engine.Poll(now)
		l.timing.polled(now, work, next)
		l.heard()
		if l.cfg.Turn != nil {
			l.cfg.Turn(now)
		}
		if work > 0 {
			since = now
		}
		if l.turns++; l.turns%lookEvery == 0 {
			l.rings(l.wait(0))
		}
		busy := work > 0 || next <= now
		switch {
		case l.job(now, busy), next <= now:
		case busy:
			l.pass(now)
		default:
			l.rest(now, since, next)
		}
	}
}

// rest chooses how to wait, by the idle time since the last work. It waits awake for deadlines
// that are nearer than a sleep is worth, and for the end of listening, unless another thread
// computes on the loop's core: then it parks at once. Yielding the thread is enough: the
// goroutine is alone on it.
func (l *Loop) rest(now, since, next clock.Time) {
	if l.lookOn(now) {
		return
	}
	l.back, l.told = 0, false
	must := l.engine.Listening() || next.Sub(now) < shortSleep
	if must || now.Sub(since) < l.cfg.Awake {
		if !l.pace.Rest(now, l.yield, Now) {
			return
		}
		if l.engine.EndListening(); l.engine.Listening() {
			return
		}
	}
	l.park(now, next)
}

// park sleeps in epoll until an event or next. It first announces that it parks, and then looks
// for the last time. A caller that changes something first sets dirty, and then looks whether
// the loop parks.
func (l *Loop) park(now, next clock.Time) {
	l.parked.Store(true)
	sleep, awake := l.cfg.Link.Sleep, l.cfg.Link.Awake
	if l.dirty.Load() || l.queued.Load() > 0 || sleep != nil && sleep() {
		l.parked.Store(false)
		return
	}
	idle.Leave()
	l.timing.parks(now, next)
	d := time.Duration(-1)
	if next != clock.Never {
		d = max(0, next.Sub(Now()))
	}
	n := l.wait(d)
	idle.Enter()
	l.parked.Store(false)
	l.left, l.stay = 0, Now().Add(moveEvery) // others may run here by now
	if awake != nil {
		awake()
	}
	l.rings(n)
}

// rings tells the engine which processes have rung.
func (l *Loop) rings(n int) {
	for i := range n {
		if token := l.events[i].Fd; token >= 0 {
			l.engine.Ring(uint16(token))
		}
	}
}

// wait is epoll_pwait2 with a timeout of d, in nanoseconds; it waits without limit if d is
// negative. It may end early.
func (l *Loop) wait(d time.Duration) (n int) {
	if d == 0 { // returns at once, so the runtime need not know
		r, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])),
			uintptr(len(l.events)), 0, 0, 0)
		return count(r, errno)
	}
	var ts *unix.Timespec
	if d > 0 {
		t := unix.NsecToTimespec(int64(d))
		ts = &t
	}
	r, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])),
		uintptr(len(l.events)), uintptr(unsafe.Pointer(ts)), 0, 0)
	if errno == unix.ENOSYS { // before Linux 5.11: milliseconds must do
		ms := -1
		if d > 0 {
			ms = int((d + time.Millisecond - 1) / time.Millisecond)
		}
		n, _ = unix.EpollWait(l.epoll, l.events[:], ms)
		return max(n, 0)
	}
	return count(r, errno)
}

func count(r uintptr, errno unix.Errno) int {
	if errno != 0 { // EINTR is expected
		return 0
	}
	return int(r)
}

// Close frees the loop's resources. Run must have returned, and no method may be called any
// more.
func (l *Loop) Close() error {
	if l.cfg.Link.Notify != nil {
		l.cfg.Link.Notify(func() {})
	}
	var errs []error
	for _, fd := range []int{l.nudge, l.epoll} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}
