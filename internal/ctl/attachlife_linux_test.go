package ctl

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/idle"
)

// process attaches to a daemon whose answers the test chooses.
func process(t *testing.T, a *answers) *Attachment {
	t.Helper()
	memory := lastingMemory(t)
	wake, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(wake[:]) })
	a.set(func(*Request) (*Reply, []int) {
		return &Reply{Attached: &Attached{NIC: 7}}, []int{memory, memory, memory, wake[1]}
	})
	p, err := dial(t, a.serve(t)).AttachAs(t.Context(), &Attach{Name: "app/3", Incarnation: 9, JobKey: []byte("key"), Geometry: &Geometry{Commands: 8}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); p.Unmap() })
	return p
}

func TestWhatAProcessAsksForReachesItsDaemon(t *testing.T) {
	a := &answers{}
	p := process(t, a)
	if r := a.requests()[0]; r.Op != OpAttach || r.Attach.Name != "app/3" || r.Attach.Incarnation != 9 || string(r.Attach.JobKey) != "key" || r.Attach.Geometry.Commands != 8 {
		t.Errorf("it attaches with %+v", r.Attach)
	}
	memory := memfd(t, 8192)
	asked := func(reply Reply, fds ...int) { a.set(func(*Request) (*Reply, []int) { return &reply, fds }) }
	asked(Reply{Region: &Region{ID: 4, Key: 8}}, memory)
	_, _, mem, err := p.Alloc(t.Context(), 5000, true)
	if r := a.requests()[0]; err != nil || r.Op != OpAlloc || r.Alloc.Bytes != 5000 || !r.Alloc.Huge || len(mem) != 8192 {
		t.Errorf("an alloc: %+v, %d bytes, %v", r.Alloc, len(mem), err)
	}
	asked(Reply{Region: &Region{ID: 5}})
	if _, _, err := p.Part(t.Context(), 4, 64, 128, true); err != nil {
		t.Error(err)
	}
	if r := a.requests()[0]; r.Op != OpPart || *r.Part != (Part{Region: 4, Offset: 64, Bytes: 128, Sealed: true}) {
		t.Errorf("a part: %+v", r.Part)
	}
	asked(Reply{Region: &Region{ID: 6}})
	if _, err := p.conn.Links(t.Context()); err != nil { // the daemon takes memory from now on
		t.Fatal(err)
	}
	if _, _, err := p.Register(t.Context(), lastingMemory(t), 4096, 100, true); err != nil {
		t.Error(err)
	}
	if r := a.requests()[1]; r.Op != OpRegister || r.Given.Offset != 4096 || r.Given.Bytes != 100 || !r.Given.Sealed {
		t.Errorf("a register: %+v", r.Given)
	}
	asked(Reply{Segment: &SharedSegment{Bytes: 8192}}, memory)
	mem, leave, err := p.Share(t.Context(), 3, 100)
	if r := a.requests()[0]; err != nil || r.Op != OpShare || *r.Segment != (SharedSegment{ID: 3, Bytes: 100}) || len(mem) != 8192 {
		t.Fatalf("a share: %+v, %d bytes, %v", r.Segment, len(mem), err)
	}
	asked(Reply{})
	if err := leave(t.Context()); err != nil {
		t.Error(err)
	}
	if r := a.requests()[0]; r.Op != OpUnshare || r.Segment.ID != 3 {
		t.Errorf("leaving: %+v", r)
	}
	if n := len(a.requests()); n != 1 {
		t.Errorf("leaving takes %d requests", n)
	}
	for _, n := range []int{0, -1} {
		if _, _, _, err := p.Alloc(t.Context(), n, false); err == nil || len(a.requests()) != 1 {
			t.Errorf("an alloc of %d bytes: %v, %d requests", n, err, len(a.requests()))
		}
	}
}

// A segment that cannot be mapped must not stay shared: nothing would release it.
func TestASegmentThatCannotBeUsedIsLetGo(t *testing.T) {
	a := &answers{}
	p := process(t, a)
	for what, c := range map[string]struct {
		bytes int64
		size  int
	}{"shorter than asked for": {99, 4096}, "without memory": {1 << 62, 4096}} {
		fd := memfd(t, c.size)
		a.set(func(r *Request) (*Reply, []int) {
			if r.Op == OpUnshare {
				return &Reply{}, nil
			}
			return &Reply{Segment: &SharedSegment{Bytes: c.bytes}}, []int{fd}
		})
		if _, _, err := p.Share(t.Context(), 3, 100); err == nil {
			t.Errorf("%s: it is shared", what)
		}
		if r := a.requests(); len(r) != 2 || r[1].Op != OpUnshare || r[1].Segment.ID != 3 {
			t.Errorf("%s: %d requests; expected that it is let go", what, len(r))
		}
	}
	fd := memfd(t, 4096)
	for _, c := range []struct{ refusal, want error }{{ErrNICGone, nil}, {ErrNoSegment, ErrNoSegment}} {
		a.set(func(r *Request) (*Reply, []int) {
			if r.Op == OpUnshare {
				return ErrorReply(c.refusal), nil
			}
			return &Reply{Segment: &SharedSegment{Bytes: 4096}}, []int{fd}
		})
		_, leave, err := p.Share(t.Context(), 3, 100)
		if err != nil {
			t.Fatal(err)
		}
		if err := leave(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("letting go, refused with %v: %v; expected %v", c.refusal, err, c.want)
		}
	}
}

func TestASegmentOfAProcessThatHasLeftIsOnlyUnmapped(t *testing.T) {
	a := &answers{}
	p := process(t, a)
	fd := memfd(t, 4096)
	a.set(func(*Request) (*Reply, []int) { return &Reply{Segment: &SharedSegment{Bytes: 4096}}, []int{fd} })
	mem, leave, err := p.Share(t.Context(), 3, 100)
	if err != nil {
		t.Fatal(err)
	}
	a.set(func(*Request) (*Reply, []int) { return &Reply{}, nil })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := leave(t.Context()); err != nil || mapped(mem) {
		t.Errorf("%v; it is mapped: %v", err, mapped(mem))
	}
}

// mapped reports whether a page at mem is mapped.
func mapped(mem []byte) bool {
	return unix.Madvise(mem[:1:1], unix.MADV_NORMAL) == nil
}

// A daemon that hangs must not hold the memory of a process that has given it up.
func TestAProcessThatGivesUpItsDaemonIsFreeOfIt(t *testing.T) {
	a := &answers{}
	p := process(t, a)
	w := p.Waiter(Hooks{Listening: func() bool { return true }})
	fd := memfd(t, 4096)
	a.set(func(*Request) (*Reply, []int) { return &Reply{Region: &Region{ID: 4}}, []int{fd} })
	_, _, mem, err := p.Alloc(t.Context(), 4096, false)
	if err != nil || w.Gone() {
		t.Fatalf("%v; gone: %v", err, w.Gone())
	}
	waits := make(chan error, 1)
	go func() { waits <- w.Wait(context.Background(), func() bool { return false }) }()
	p.GiveUp()
	if err := ends(t, "a wait", func() error { return <-waits }); !errors.Is(err, ErrNICGone) || !w.Gone() {
		t.Errorf("a wait ends with %v; gone: %v", err, w.Gone())
	}
	for what, ask := range map[string]func() error{
		"alloc":    func() error { _, _, _, err := p.Alloc(t.Context(), 1, false); return err },
		"part":     func() error { _, _, err := p.Part(t.Context(), 1, 0, 1, false); return err },
		"register": func() error { _, _, err := p.Register(t.Context(), fd, 0, 1, false); return err },
		"share":    func() error { _, _, err := p.Share(t.Context(), 1, 1); return err },
		"names":    func() error { _, err := p.conn.Names(t.Context()); return err },
	} {
		if err := ask(); !errors.Is(err, ErrNICGone) || errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v; expected %v", what, err, ErrNICGone)
		}
	}
	if err := p.Free(t.Context(), 4); err != nil || mapped(mem) {
		t.Errorf("a free: %v; the memory is mapped: %v", err, mapped(mem))
	}
	if err := errors.Join(p.Close(), p.Unmap(), p.Unmap()); err != nil {
		t.Error(err)
	}
}

// ending is a context that calls end whenever a caller asks whether it is done.
type ending struct {
	context.Context
	end func()
}

func (e ending) Err() error { e.end(); return e.Context.Err() }

// The daemon may end after a waiter has checked for that, and before it is on the list of those
// to be woken. The waiter checks again before it sleeps.
func TestAWaitEndsIfItsDaemonEndsJustBeforeItSleeps(t *testing.T) {
	p := process(t, &answers{})
	w := p.Waiter(Hooks{Listening: func() bool { return true }})
	// Another goroutine looks, so this one sleeps at once.
	w.looking.Store(true)
	ctx := ending{t.Context(), func() { p.gone.Store(true); w.waiters.WakeAll() }} // as listen does
	err := ends(t, "a wait", func() error { return w.Wait(ctx, func() bool { return false }) })
	if !errors.Is(err, ErrNICGone) {
		t.Errorf("the wait ends with %v; expected %v", err, ErrNICGone)
	}
}

// The same holds for the condition of a wait.
func TestAWaitEndsIfItsConditionBecomesTrueJustBeforeItSleeps(t *testing.T) {
	p := process(t, &answers{})
	w := p.Waiter(Hooks{Listening: func() bool { return true }})
	w.looking.Store(true)
	var ready atomic.Bool
	ctx := ending{t.Context(), func() { ready.Store(true); w.Wake() }}
	if err := ends(t, "a wait", func() error { return w.Wait(ctx, ready.Load) }); err != nil {
		t.Errorf("the wait ends with %v", err)
	}
}

// Waiters look for a while before they sleep, also if the process does not say for how long.
func TestAWaiterLooksBeforeItSleeps(t *testing.T) {
	p := process(t, &answers{})
	if w := p.Waiter(Hooks{}); w.hooks.Awake != idle.Awake {
		t.Errorf("it looks for %v; expected %v", w.hooks.Awake, idle.Awake)
	}
}

// The number of a closed descriptor may be another's by now. A second Unmap leaves it alone.
func TestASecondUnmapClosesNothing(t *testing.T) {
	p := process(t, &answers{})
	if err := p.Unmap(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup3(memfd(t, 4096), p.kick, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := p.Unmap(); err != nil {
		t.Error(err)
	}
	if err := unix.Close(p.kick); err != nil {
		t.Errorf("another's descriptor is closed: %v", err)
	}
}

func TestARequestInFlightEndsWhenItsDaemonIsGivenUp(t *testing.T) {
	a := &answers{}
	p := process(t, a)
	asked, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	a.set(func(*Request) (*Reply, []int) { close(asked); <-over; return &Reply{}, nil })
	got := make(chan error, 1)
	go func() { _, _, err := p.Part(t.Context(), 1, 0, 1, false); got <- err }()
	<-asked
	p.GiveUp()
	if err := ends(t, "the request", func() error { return <-got }); !errors.Is(err, ErrNICGone) {
		t.Errorf("%v; expected %v", err, ErrNICGone)
	}
}

// The caller of an unanswered request learns both: that its time is over, and that the daemon
// counts as gone.
func TestARequestThatIsNotAnsweredInTimeGivesTheDaemonUp(t *testing.T) {
	a := &answers{}
	p := process(t, a)
	w := p.Waiter(Hooks{Listening: func() bool { return true }})
	over := make(chan struct{})
	defer close(over)
	a.set(func(*Request) (*Reply, []int) { <-over; return &Reply{}, nil })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, _, err := p.Part(ctx, 1, 0, 1, false)
	if !errors.Is(err, ErrNICGone) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not answered for") {
		t.Errorf("%v; expected %v and %v", err, ErrNICGone, context.DeadlineExceeded)
	}
	err = ends(t, "a wait", func() error { return w.Wait(t.Context(), func() bool { return false }) })
	if !errors.Is(err, ErrNICGone) {
		t.Errorf("a wait behind it: %v; expected %v", err, ErrNICGone)
	}
}

func TestAfterCloseNothingGivesTheDaemonUp(t *testing.T) {
	a := &answers{}
	p := process(t, a)
	w := p.Waiter(Hooks{Listening: func() bool { return true }})
	fd := memfd(t, 4096)
	a.set(func(*Request) (*Reply, []int) { return &Reply{Region: &Region{ID: 4}}, []int{fd} })
	_, _, mem, err := p.Alloc(t.Context(), 4096, false)
	if err != nil {
		t.Fatal(err)
	}
	a.set(func(*Request) (*Reply, []int) { return &Reply{}, nil })
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if r := a.requests(); len(r) != 1 || r[0].Op != OpLeave {
		t.Errorf("two closes make %d requests; expected one that leaves", len(r))
	}
	p.GiveUp()
	if err := ends(t, "a wait", func() error { return w.Wait(t.Context(), func() bool { return false }) }); !errors.Is(err, ErrClosed) {
		t.Errorf("a wait: %v; expected %v", err, ErrClosed)
	}
	if _, _, err := p.Part(t.Context(), 1, 0, 1, false); !errors.Is(err, ErrClosed) {
		t.Errorf("a request: %v; expected %v", err, ErrClosed)
	}
	if err := p.Free(t.Context(), 4); err != nil || mapped(mem) {
		t.Errorf("a free: %v; the memory is mapped: %v", err, mapped(mem))
	}
	rw, ro := p.RW, p.RO
	if !mapped(rw) || !mapped(ro) {
		t.Error("the VNI is not mapped until Unmap")
	}
	if err := p.Unmap(); err != nil || mapped(rw) || mapped(ro) || p.RW != nil || p.RO != nil {
		t.Errorf("Unmap: %v; the VNI is mapped: %v, %v", err, mapped(rw), mapped(ro))
	}
}

func TestUnmapTakesTheRegionsThatAreLeftAndClosesTheRest(t *testing.T) {
	life := func(t *testing.T) {
		a := &answers{}
		p := process(t, a)
		var all [][]byte
		for id := range uint32(3) {
			fd := memfd(t, 4096)
			a.set(func(*Request) (*Reply, []int) { return &Reply{Region: &Region{ID: id + 1}}, []int{fd} })
			_, _, mem, err := p.Alloc(t.Context(), 4096, false)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, mem)
		}
		a.set(func(*Request) (*Reply, []int) { return &Reply{}, nil })
		if err := errors.Join(p.Close(), p.Unmap()); err != nil || len(p.regions) > 0 {
			t.Errorf("%v; %d regions are left", err, len(p.regions))
		}
		for i, mem := range all {
			if mapped(mem) {
				t.Errorf("region %d is mapped", i+1)
			}
		}
	}
	t.Run("the first", life)
	before := openFiles(t)
	for range 3 {
		t.Run("another", life)
	}
	closedAgain(t, "processes that have left", before)
}
