package proc

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// kicking is polling whose first Kick waits, like a goroutine that has just lost its processor.
type kicking struct {
	polling
	began       atomic.Bool
	enter, gate chan struct{}
}

func (w *kicking) Kick() {
	if !w.began.Swap(true) {
		w.enter <- struct{}{}
		<-w.gate
	}
}

// When a process at a daemon kicks, it reads from the segment once more whether the NIC listens.
// By then the operation may have ended, and Close may settle it.
func TestTheSegmentStaysWhileAStartFormKicks(t *testing.T) {
	n := &toy{}
	w := &kicking{polling: polling{n: n}, enter: make(chan struct{}), gate: make(chan struct{})}
	var released atomic.Int32
	p, q := n.join(t, smallGeometry, false, func(*vni.Process, *toyProc) Waiter { return w }, Options{Released: func() { released.Add(1) }})
	q.nic.StopListening()
	started, closed := make(chan error, 1), make(chan error, 1)
	var o Op
	go func() { started <- p.StartRecvInto(&o, Dest{}, AnyTag, make([]byte, 100)) }()
	<-w.enter
	go func() { closed <- p.Close() }()
	for !o.done.Load() { // Close settles it
		time.Sleep(100 * time.Microsecond)
	}
	time.Sleep(time.Millisecond)
	if released.Load() != 0 {
		t.Error("released while a start form kicks")
	}
	close(w.gate)
	if err := <-started; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil || released.Load() != 1 {
		t.Errorf("released %d times, %v", released.Load(), err)
	}
	if done, _, err := o.Test(); !done || !errors.Is(err, ErrClosed) {
		t.Errorf("done %v, %v", done, err)
	}
}

// A goroutine that polls calls Began to let others run. Otherwise it keeps its processor until
// another thread takes them over.
func TestAStartFormSaysThatItHasBegunIfItNeedNotKick(t *testing.T) {
	n := &toy{}
	w := &polling{n: n}
	began := 0
	p, q := n.join(t, smallGeometry, true, func(*vni.Process, *toyProc) Waiter { return w }, Options{Began: func() { began++ }})
	start := func() {
		t.Helper()
		var o Op
		if err := p.StartRecvInto(&o, Dest{}, AnyTag, nil); err != nil {
			t.Fatal(err)
		}
		// The caller waits for its end, and polls itself.
		if err := p.Send(bg, app(t, "app/0"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Wait(bg); err != nil {
			t.Fatal(err)
		}
	}
	if start(); began != 1 || w.kicks.Load() != 0 {
		t.Errorf("beside a NIC that listens it has said so %d times, and kicked %d times; expected once and never", began, w.kicks.Load())
	}
	q.nic.StopListening()
	if start(); began != 1 || w.kicks.Load() == 0 {
		t.Errorf("beside one that does not it has said so %d times more, and kicked %d times; expected none, and a kick", began-1, w.kicks.Load())
	}
}
