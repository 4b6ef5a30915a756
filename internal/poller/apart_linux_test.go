package poller

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/idle"
)

func TestAWaiterWhoAlwaysHasItsCoreBackFromSomebodyMovesIfThereIsRoom(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor: the waiter lets other goroutines run, and does not know which thread took up a yield")
	}
	var may, here unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; here.Count() == 0; cpu++ {
		if may.IsSet(cpu) {
			here.Set(cpu)
		}
	}
	onThisCore := func(f func()) {
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			if err := unix.SchedSetaffinity(0, &here); err != nil {
				t.Error(err)
			}
			f()
		}()
	}

	var asked, moved, room atomic.Int64
	p := open(t, newFake(0), Config{Awake: time.Hour})
	p.mu.Lock()
	p.apart.room = func() bool { asked.Add(1); return room.Load() > 0 }
	p.apart.move = func() { moved.Add(1) }
	p.mu.Unlock()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	onThisCore(func() {
		var err error
		// Another thread may compute there. Then the waiter parks, and nothing would wake it.
		for ctx.Err() == nil {
			soon, stop := context.WithTimeout(ctx, 20*time.Millisecond)
			err = p.Wait(soon, func() bool { return false })
			stop()
		}
		ended <- err
	})
	stopped := make(chan struct{})
	onThisCore(func() {
		defer close(stopped)
		for ctx.Err() == nil {
			for begun := Now(); Now().Sub(begun) < 5*time.Microsecond; { // looks at something
			}
			idle.YieldThread()
		}
	})
	eventually(t, "a question for room", func() bool { return asked.Load() > 2 })
	if n := moved.Load(); n != 0 {
		t.Errorf("moved %d times though there was no room", n)
	}
	room.Store(1)
	eventually(t, "a move", func() bool { return moved.Load() > 0 })
	end()
	if err := <-ended; err == nil {
		t.Error("the wait that was cancelled has succeeded")
	}
	<-stopped
}
