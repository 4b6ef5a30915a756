package proc

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

func TestAMessageLongerThanThePoolGoesThroughAPartOfIt(t *testing.T) {
	for _, size := range []int{33_000, 1 << 20, 5<<20 + 1} {
		n, a, b := parkedPair(t, smallGeometry, false)
		want, got := pattern(size, 1), make([]byte, size)
		sent := make(chan error, 1)
		go func() { sent <- a.Send(bg, app(t, "app/1"), 1, want[:size/3], want[size/3:]) }()
		m, err := b.Recv(bg, Dest{}, AnyTag, got)
		if err != nil || m.Len != size || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: %+v, %v", size, m, err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		n.mu.Lock()
		for _, p := range n.procs {
			if len(p.regions) != 0 || size > 1<<20 && p.codes[vni.CodeRefill] == 0 {
				t.Errorf("%d bytes: %d temporary regions, %d Refills", size, len(p.regions), p.codes[vni.CodeRefill])
			}
		}
		n.mu.Unlock()
		if a.pool.free[0].pages != smallGeometry.PoolPages || len(a.refills) == 0 {
			t.Error("the pool is not whole again")
		}
	}
}

func TestALongReceiveTakesAShortMessageAndAShortReceiveALongOne(t *testing.T) {
	_, a, b := parkedPair(t, smallGeometry, false)
	want, got := pattern(1<<20, 1), make([]byte, 1<<20)
	for _, x := range []struct{ send, recv int }{{100, 1 << 20}, {70_000, 1 << 20}, {1 << 20, 50_000}, {1 << 20, 100}} {
		sent := make(chan error, 1)
		go func() { sent <- a.Send(bg, app(t, "app/1"), 1, want[:x.send]) }()
		m, err := b.Recv(bg, Dest{}, AnyTag, got[:x.recv])
		if (x.send > x.recv) != errors.Is(err, ErrTruncated) || m.Len != min(x.send, x.recv) || m.Full != uint64(x.send) || !bytes.Equal(got[:m.Len], want[:m.Len]) {
			t.Errorf("%d bytes into %d: %+v, %v", x.send, x.recv, m, err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}

func TestPutAndGetOfMoreThanThePoolGoThroughAPartOfIt(t *testing.T) {
	_, a, b := parkedPair(t, smallGeometry, false)
	r, err := b.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	want, got := pattern(1<<20, 1), make([]byte, 1<<20)
	if err := a.Put(bg, r.Handle(), 0, want[:77], want[77:]); err != nil || !bytes.Equal(r.Bytes(), want) {
		t.Errorf("put: %v, whole: %v", err, bytes.Equal(r.Bytes(), want))
	}
	if err := a.Get(bg, r.Handle(), 0, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("get: %v, whole: %v", err, bytes.Equal(got, want))
	}
}

// Issue 3: a Send from regions makes no copy on the sending side, however many pieces it has.
func TestManyPiecesOfRegionsAreNotStaged(t *testing.T) {
	n, a, b := parkedPair(t, smallGeometry, false)
	r, err := a.Alloc(100_000)
	if err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	var want []byte
	for i := 0; i < 100; i += 2 {
		copy(r.Bytes()[i*1000:], pattern(1000, i))
		parts = append(parts, r.Bytes()[i*1000:][:1000])
		want = append(want, parts[len(parts)-1]...)
	}
	a.pool = newPool(0) // so that nothing can be staged in it
	sent := make(chan error, 1)
	go func() { sent <- a.Send(bg, app(t, "app/1"), 1, parts...) }()
	for range 1000 {
		a.mu.Lock()
		under := r.refills > 0
		a.mu.Unlock()
		if under {
			if err := r.Close(); err == nil || r.closed {
				t.Errorf("a region was closed under an operation: %v", err)
			}
			break
		}
		time.Sleep(10 * time.Microsecond)
	}
	got := make([]byte, len(want))
	if m, err := b.Recv(bg, Dest{}, AnyTag, got); err != nil || m.Len != len(want) || !bytes.Equal(got, want) {
		t.Errorf("%+v, %v", m, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	n.mu.Lock()
	if len(n.procs[0].regions) != 1 {
		t.Error("it was staged in a temporary region")
	}
	n.mu.Unlock()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestARefilledOperationCanBeCancelledAtAnyTime(t *testing.T) {
	_, a, b := parkedPair(t, smallGeometry, false)
	want, got := pattern(1<<20, 1), make([]byte, 1<<20)
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	sender := make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = a.Send(ctx, app(t, "app/1"), 1, want)
		}
		sender <- err
	}()
	ended := map[bool]int{}
	longer := 10 * time.Microsecond
	if testing.Short() {
		longer = 40 * time.Microsecond
	}
	for wait := time.Duration(0); wait < 2*time.Millisecond; wait += longer {
		ctx, cancel := context.WithTimeout(bg, wait)
		m, err := b.Recv(ctx, Dest{}, AnyTag, got)
		cancel()
		if err == nil && (m.Len != len(want) || !bytes.Equal(got, want)) {
			t.Fatalf("%+v", m)
		}
		ended[err == nil]++
	}
	last, stop := context.WithTimeout(bg, time.Minute)
	defer stop()
	if m, err := b.Recv(last, Dest{}, AnyTag, got); err != nil || m.Len != len(want) || !bytes.Equal(got, want) {
		t.Errorf("behind all that were cancelled: %+v, %v", m, err)
	}
	if ended[false] == 0 {
		t.Error("no receive was cancelled")
	}
	select {
	case err := <-sender:
		t.Errorf("a send: %v", err)
	default:
	}
	cancel()
	if err := <-sender; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("the last send: %v", err)
	}
}

func TestManyRefilledOperationsAtATime(t *testing.T) {
	_, a, b := parkedPair(t, vni.Geometry{Commands: 64, Contexts: 8, Descriptors: 4, PoolPages: 32}, false)
	var wait sync.WaitGroup
	for g := range 24 { // more than contexts, and more than refills
		wait.Add(2)
		size := 50_000 + g*30_000
		go func() {
			defer wait.Done()
			for range 5 {
				if err := a.Send(bg, app(t, "app/1"), uint64(g), pattern(size, g)); err != nil {
					t.Error(err)
				}
			}
		}()
		go func() {
			defer wait.Done()
			got := make([]byte, size)
			for range 5 {
				if m, err := b.Recv(bg, Dest{}, Tagged(uint64(g)), got); err != nil || m.Len != size || !bytes.Equal(got, pattern(size, g)) {
					t.Errorf("%+v, %v", m, err)
				}
			}
		}()
	}
	wait.Wait()
}

// The NIC takes descriptors while more are filled. Wherever it stops, it must be told of the next
// descriptor. Few runs hit the critical moment; TestEveryScheduleOfASendThatIsRefilled tries all
// orders.
func TestTheNICIsToldOfADescriptorThatItMayHaveMissed(t *testing.T) {
	_, a, b := parkedPair(t, vni.Geometry{Commands: 64, Contexts: 4, Descriptors: 16, PoolPages: 32}, false)
	want, got := pattern(8<<20, 1), make([]byte, 8<<20)
	for range 10 {
		sent := make(chan error, 1)
		go func() { sent <- a.Send(bg, app(t, "app/1"), 1, want) }()
		if m, err := b.Recv(bg, Dest{}, AnyTag, got); err != nil || m.Len != len(want) {
			t.Fatalf("%+v, %v", m, err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}
