package poller

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
)

func TestAWaiterWhoAlwaysHasItsCoreBackFromSomebodyMovesIfThereIsRoom(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor: the waiter lets other goroutines run, and does not know who took up a yield")
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
		for ctx.Err() == nil { // somebody else may compute there: then it parks, and nothing would wake it
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

// Who hopes for more work beside somebody who computes does not yield, and so learns nothing of the core that it has moved to.
func TestAWaiterDoesNotMoveAgainForWhatItKnowsOfTheCoreThatItHasLeft(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor: the waiter never moves")
	}
	p := open(t, busy{newFake(0)}, Config{Awake: time.Hour})
	moved := 0
	p.mu.Lock()
	p.apart.room = func() bool { return true }
	p.apart.move = func() { moved++ }
	p.mu.Unlock()
	runtime.LockOSThread() // the kernel counts by thread how often another had its core
	defer runtime.UnlockOSThread()
	at := Now()
	yield := func(d time.Duration) (park bool) {
		at = at.Add(time.Millisecond)
		return p.pace.Rest(at, func() { _ = unix.Nanosleep(&unix.Timespec{Nsec: 1000}, nil) }, func() clock.Time { return at.Add(d) })
	}
	for range mostGiven {
		yield(10 * time.Microsecond) // somebody takes it up
	}
	if !yield(time.Hour) { // and who computes then
		t.Fatal("it does not know that somebody computes there")
	}
	if n := p.pace.Given(); n < mostGiven {
		t.Fatalf("it has given up its core %d times; expected %d", n, mostGiven)
	}
	looks := 0
	enough := func() bool {
		looks++
		return moved > 1 || moved == 1 && looks > 1000 && Now() > p.apart.until.Add(mostStay)
	}
	if err := p.Wait(t.Context(), enough); err != nil || moved != 1 {
		t.Errorf("moved %d times; expected once; %v", moved, err)
	}
}

// busy is an engine that always has something to do.
type busy struct{ *fakeEngine }

func (b busy) Poll(now clock.Time) (int, clock.Time) {
	b.fakeEngine.Poll(now)
	return 1, now
}

func (b busy) PollFrame(now clock.Time) (int, clock.Time) { return b.Poll(now) }
