package proc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
	"pgregory.net/rapid"
)

func TestCloseEndsEveryCallAndThenLetsGo(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		n := &toy{}
		kick, stop := make(chan struct{}, 1), make(chan struct{})
		defer close(stop)
		var released atomic.Int32
		p, _ := n.join(t, smallGeometry, direct, func(vp *vni.Process, q *toyProc) Waiter {
			w := &parking{vp: vp, kick: kick, sleepers: map[chan struct{}]bool{}}
			q.wake = w.Wake
			return w
		}, Options{Released: func() { released.Add(1) }})
		go n.run(kick, stop)
		r, err := p.Alloc(100)
		if err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 100)
		call := func(f func() error) {
			go func() { errs <- f() }()
		}
		for range 7 { // more than there are contexts, so some wait for one
			call(func() error { _, err := p.Recv(bg, Dest{}, AnyTag, make([]byte, 5000)); return err })
			call(func() error { return p.Send(bg, app(t, "silent/0"), 0, make([]byte, 5000)) })
		}
		call(func() error { _, _, err := p.NextEvent(bg); return err })
		call(func() error {
			_, err := p.Call(bg, app(t, "silent/0"), 0, nil, nil)
			return err
		})
		time.Sleep(2 * time.Millisecond)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		for range 16 {
			if err := <-errs; !errors.Is(err, ErrClosed) {
				t.Errorf("blocked call: %v", err)
			}
		}
		if err := p.Send(bg, app(t, "app/0"), 0); !errors.Is(err, ErrClosed) {
			t.Errorf("send after Close: %v", err)
		}
		if _, err := p.StartRecv(Dest{}, AnyTag, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("receive after Close: %v", err)
		}
		if _, err := p.Alloc(1); !errors.Is(err, ErrClosed) {
			t.Errorf("alloc after Close: %v", err)
		}
		if released.Load() != 0 {
			t.Error("released while a region is open")
		}
		r.Bytes()[0] = 1
		if err := errors.Join(r.Close(), r.Close(), p.Close()); err != nil || released.Load() != 1 {
			t.Errorf("released %d times, %v", released.Load(), err)
		}
	})
}

func TestCloseSettlesWhatStartFormsBegan(t *testing.T) {
	_, a, _ := parkedPair(t, smallGeometry, true)
	recv, err := a.StartRecv(Dest{}, AnyTag, nil)
	if err != nil {
		t.Fatal(err)
	}
	send, err := a.StartSend(app(t, "silent/0"), 0)
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() { _, err := recv.Wait(bg); waited <- err }()
	time.Sleep(time.Millisecond)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waited; !errors.Is(err, ErrClosed) {
		t.Errorf("receive: %v", err)
	}
	if done, _, err := send.Test(); !done || !errors.Is(err, ErrClosed) {
		t.Errorf("send: %v, %v", done, err)
	}
	send.Cancel()
}

// An operation that is still being staged belongs only to its caller.
func TestCloseLeavesAloneWhatIsNotYetPosted(t *testing.T) {
	for _, gone := range []bool{false, true} {
		n := &toy{}
		w := &polling{n: n}
		var released atomic.Int32
		p, q := n.join(t, smallGeometry, false, func(*vni.Process, *toyProc) Waiter { return w }, Options{Released: func() { released.Add(1) }})
		p.pool = newPool(0) // as if other operations held all of it
		enter, gate := make(chan struct{}), make(chan struct{})
		p.mem.(*toyMemory).enter, p.mem.(*toyMemory).gate = enter, gate
		errs, closed := make(chan error, 2), make(chan error, 1)
		go func() { _, err := p.StartSend(app(t, "app/0"), 0, make([]byte, 100_000)); errs <- err }()
		<-enter
		go func() { errs <- p.Send(bg, app(t, "app/0"), 0, make([]byte, 100_000)) }()
		<-enter
		if gone {
			w.gone.Store(true) // so that Close does not wait
		}
		go func() { closed <- p.Close() }()
		for !p.closed.Load() {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Millisecond)
		if released.Load() != 0 {
			t.Errorf("gone %v: released while two calls copy into it", gone)
		}
		close(gate)
		for range 2 {
			if err := <-errs; !errors.Is(err, ErrClosed) {
				t.Errorf("gone %v: %v", gone, err)
			}
		}
		if err := <-closed; err != nil {
			t.Errorf("gone %v: %v", gone, err)
		}
		for end := time.Now().Add(time.Minute); released.Load() == 0 && time.Now().Before(end); {
			// The last call to leave releases the segment after it has returned its error.
			time.Sleep(100 * time.Microsecond)
		}
		if released.Load() != 1 {
			t.Errorf("gone %v: released %d times", gone, released.Load())
		}
		if len(q.regions) != 0 {
			t.Errorf("gone %v: %d regions left", gone, len(q.regions))
		}
	}
}

func TestABusyRegionStays(t *testing.T) {
	_, a, _ := pair(t, smallGeometry, false)
	r, err := a.Alloc(10)
	if err != nil {
		t.Fatal(err)
	}
	m := a.mem.(*toyMemory)
	m.busy = true
	if err := r.Close(); err == nil || len(a.regions) != 1 {
		t.Errorf("busy region closed: %v", err)
	}
	m.busy = false
	if err := r.Close(); err != nil || len(a.regions) != 0 {
		t.Errorf("%v", err)
	}
}

// If the region is the caller's own memory, which may be unmapped, operations still check it as
// before.
func TestABusyRegionOfTheCallersMemoryIsLookedAtAsBefore(t *testing.T) {
	_, a, _ := pair(t, smallGeometry, false)
	r, err := a.Register(make([]byte, 10), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	a.mem.(*toyMemory).busy = true
	err = r.Close()
	if all := a.registered.Load(); err == nil || all == nil || len(*all) != 1 {
		t.Errorf("busy region closed: %v; looked at: %v", err, all)
	}
	a.mem.(*toyMemory).busy = false
	if err := r.Close(); err != nil || a.registered.Load() != nil {
		t.Errorf("%v; looked at: %v", err, a.registered.Load())
	}
}

func TestTheEndOfTheNICEndsEverything(t *testing.T) {
	for _, x := range []struct {
		how  string
		end  func(n *toy, w *polling)
		want error
	}{
		{"the NIC says so", func(n *toy, w *polling) { n.procs[0].nic.SetGone(vni.StatusNICGone) }, ErrNICGone},
		{"detached", func(n *toy, w *polling) { n.procs[0].nic.SetGone(vni.StatusDetached) }, ErrNICGone},
		{"name lost", func(n *toy, w *polling) { n.procs[0].nic.SetGone(vni.StatusNameLost) }, ErrNameLost},
		{"the waiter finds out", func(n *toy, w *polling) { w.gone.Store(true) }, ErrNICGone},
	} {
		n := &toy{}
		w := &polling{n: n}
		released := false
		p, q := n.join(t, smallGeometry, true, func(*vni.Process, *toyProc) Waiter { return w }, Options{Released: func() { released = true }})
		q.nic.Event(vni.Event{Kind: vni.EventNameLost})
		op, err := p.StartRecv(Dest{}, AnyTag, nil)
		if err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 3)
		go func() { _, err := p.Recv(bg, Dest{}, AnyTag, nil); errs <- err }()
		go func() { errs <- p.Send(bg, app(t, "silent/0"), 0) }()
		go func() { _, err := op.Wait(bg); errs <- err }()
		time.Sleep(time.Millisecond)
		n.mu.Lock() // between two polls, as a NIC ends; then it serves nothing
		x.end(n, w)
		n.blind = true
		n.mu.Unlock()
		for range 3 {
			if err := <-errs; !errors.Is(err, x.want) {
				t.Errorf("%s: blocked call: %v", x.how, err)
			}
		}
		if err := p.Send(bg, app(t, "app/0"), 0); !errors.Is(err, x.want) {
			t.Errorf("%s: send afterwards: %v", x.how, err)
		}
		if e, _, err := p.NextEvent(bg); err != nil || e.Kind != vni.EventNameLost {
			t.Errorf("%s: the last event is lost: %+v, %v", x.how, e, err)
		}
		if _, _, err := p.NextEvent(bg); !errors.Is(err, x.want) {
			t.Errorf("%s: event afterwards: %v", x.how, err)
		}
		if err := p.Close(); err != nil || !released {
			t.Errorf("%s: close: %v, released %v", x.how, err, released)
		}
	}
}

func TestAQueueWithoutRoomIsWaitedFor(t *testing.T) {
	g := vni.Geometry{Commands: 40, Contexts: 4, Descriptors: 4}
	n, a, b := pair(t, g, true)
	n.blind = true
	for a.vp.Room(1 + a.reserve) { // commands without effect
		a.vp.Post(vni.Command{Code: vni.CodeCancel})
	}
	if _, err := a.StartSend(app(t, "app/1"), 0); !errors.Is(err, ErrQueueFull) {
		t.Errorf("start form: %v", err)
	}
	ctx, cancel := context.WithTimeout(bg, time.Millisecond)
	defer cancel()
	if err := a.Send(ctx, app(t, "app/1"), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("blocking form: %v", err)
	}
	n.mu.Lock()
	n.blind = false
	n.mu.Unlock()
	if err := a.Send(bg, app(t, "app/1"), 4); err != nil {
		t.Errorf("once there is room: %v", err)
	}
	if m, err := b.Recv(bg, Dest{}, AnyTag, nil); err != nil || m.Tag != 4 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestTheNICIsKickedWhenItDoesNotListen(t *testing.T) {
	n := &toy{}
	w := &polling{n: n}
	p, q := n.join(t, smallGeometry, true, func(*vni.Process, *toyProc) Waiter { return w }, Options{})
	if err := p.Send(bg, app(t, "app/0"), 0); err != nil || w.kicks.Load() != 0 {
		t.Errorf("%d kicks for a NIC that listens, %v", w.kicks.Load(), err)
	}
	q.nic.StopListening()
	if err := p.Send(bg, app(t, "app/0"), 0); err != nil || w.kicks.Load() != 1 {
		t.Errorf("%d kicks for a NIC that does not listen, %v", w.kicks.Load(), err)
	}
}

func TestGeometryWithoutReserveIsRefused(t *testing.T) {
	g := vni.Geometry{Commands: 16, Contexts: 4, Descriptors: 4}
	rw, ro := g.Sizes()
	seg, err := vni.NewSegment(vni.AlignedBytes(rw), vni.AlignedBytes(ro), g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(seg, &polling{}, nil, Options{}); err == nil {
		t.Error("accepted")
	}
}

// Decision 16: in the steady state, the blocking forms allocate nothing.
func TestBlockingFormsAllocateNothing(t *testing.T) {
	for _, x := range []struct {
		what   string
		direct bool
		size   int
	}{{"short", false, 64}, {"direct", true, 8192}, {"pool", false, 8192}, {"temporary region", false, 100_000}} {
		n, a, b := pair(t, smallGeometry, x.direct)
		to := app(t, "app/1")
		n.mu.Lock()
		n.blind = true // the toy allocates, so the test does its part
		n.mu.Unlock()
		c := vni.Completion{Len: uint64(x.size)}
		w := &stepping{step: func() { finishAll(n, &c) }}
		a.w, b.w = w, w
		buf, out := make([]byte, x.size), make([]byte, x.size)
		allocs := testing.AllocsPerRun(200, func() {
			if err := a.Send(bg, to, 1, buf[:x.size/2], buf[x.size/2:]); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Recv(bg, Dest{}, AnyTag, out); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Call(bg, to, 1, out, buf); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", x.what, allocs)
		}
		var op Op
		allocs = testing.AllocsPerRun(200, func() {
			if err := a.StartSendInto(&op, to, 1, buf); err != nil {
				t.Fatal(err)
			}
			if _, err := op.Wait(bg); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s, with an Op used again: %v allocations", x.what, allocs)
		}
	}
}

// stepping waits by calling a function.
type stepping struct{ step func() }

func (w *stepping) Wait(_ context.Context, ready func() bool) error {
	for !ready() {
		w.step()
	}
	return nil
}
func (w *stepping) Kick() {}
func (w *stepping) Wake() {}

// finishAll completes all posted operations, without checking them.
func finishAll(n *toy, c *vni.Completion) {
	for _, p := range n.procs {
		for cmd, ok := p.nic.Next(); ok; cmd, ok = p.nic.Next() {
			receive := cmd.Code == vni.CodeReceive
			if receive {
				err := p.nic.Receive(int(cmd.Context), new(vni.ReceiveContext))
				must(err)
			} else {
				err := p.nic.Send(int(cmd.Context), new(vni.SendContext))
				must(err)
			}
			must(p.nic.Complete(receive, int(cmd.Context), c, true))
		}
	}
}

func TestManyGoroutinesShareAProcess(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := parkedPair(t, smallGeometry, direct)
		const workers, each = 10, 100
		var wg sync.WaitGroup
		for k := range uint64(workers) {
			wg.Add(2)
			go func() {
				defer wg.Done()
				for i := range each {
					if err := a.Send(bg, app(t, "app/1"), k, pattern(i*37, i)); err != nil {
						t.Errorf("send %d.%d: %v", k, i, err)
						return
					}
				}
			}()
			go func() {
				defer wg.Done()
				buf := make([]byte, each*37)
				for i := range each {
					m, err := b.Recv(bg, app(t, "app/0"), Tagged(k), buf)
					if err != nil || m.Len != i*37 || string(buf[:m.Len]) != string(pattern(i*37, i)) {
						t.Errorf("message %d.%d: %+v, %v", k, i, m, err)
						return
					}
				}
			}()
		}
		wg.Wait()
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		if !direct && (len(a.pool.free) != 1 || len(b.pool.free) != 1 || a.pool.free[0].pages != smallGeometry.PoolPages) {
			t.Errorf("pages lost: %v, %v", a.pool.free, b.pool.free)
		}
	})
}

func TestTokensAreNeverZeroNorRepeatedSoon(t *testing.T) {
	_, a, _ := pair(t, smallGeometry, true)
	seen := map[uint32]bool{}
	for i := range 3 << countBits {
		tok := a.token(2, i%2 == 0)
		if tok == 0 || tok&0xffff != 2 || (tok&callBit != 0) != (i%2 == 0) {
			t.Fatalf("token %#x", tok)
		}
		if i < 1<<countBits-1 && seen[tok&^callBit] {
			t.Fatalf("token %#x again after %d", tok, i)
		}
		seen[tok&^callBit] = true
	}
}

func TestThePoolEqualsADumbOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(rt, "pages")
		p := newPool(n)
		taken := make([]bool, n) // a simple model: first fit over single pages
		var runs []run
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			if len(runs) > 0 && rapid.Bool().Draw(rt, "give") {
				k := rapid.IntRange(0, len(runs)-1).Draw(rt, "which")
				r := runs[k]
				runs = append(runs[:k], runs[k+1:]...)
				p.give(r.first, r.pages)
				for i := range r.pages {
					taken[r.first+i] = false
				}
				continue
			}
			pages := rapid.IntRange(1, 12).Draw(rt, "pages to take")
			want := firstFit(taken, pages)
			first, ok := p.take(pages)
			if ok != (want >= 0) || ok && first != want {
				rt.Fatalf("took %d, %v; want %d", first, ok, want)
			}
			if ok {
				runs = append(runs, run{first, pages})
				for i := range pages {
					taken[first+i] = true
				}
			}
		}
		for _, r := range runs {
			p.give(r.first, r.pages)
		}
		if n > 0 && (len(p.free) != 1 || p.free[0] != run{0, n}) {
			rt.Fatalf("all given back, free are %v", p.free)
		}
	})
}

func firstFit(taken []bool, pages int) int {
	for first := 0; first+pages <= len(taken); first++ {
		free := true
		for i := range pages {
			free = free && !taken[first+i]
		}
		if free {
			return first
		}
	}
	return -1
}
