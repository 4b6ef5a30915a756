package idle

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestIdlenessGoesFromSpinningOverYieldingToParking(t *testing.T) { // decision 11
	b := Budget{Spin: 10, Yield: 100}
	first := Spin // nobody polls, so that there are cores for one more
	for idle, want := range map[time.Duration]Stage{0: first, 9: first, 10: Yield, 99: Yield, 100: Park, time.Hour: Park} {
		if got := b.Stage(idle); got != want {
			t.Errorf("idle for %d ns of %+v: stage %d, want %d", idle, b, got, want)
		}
	}
}

func TestNobodySpinsWhenPollersHaveEveryCore(t *testing.T) {
	for range runtime.NumCPU()/coresPerPoller + 1 {
		Enter()
		defer Leave()
	}
	if s := (Budget{Spin: 10, Yield: 100}).Stage(0); s != Yield {
		t.Errorf("stage %d, want to yield", s)
	}
}

func TestWhoIsReadyIsWokenOnceAndTheListSaysWhenSomebodySleeps(t *testing.T) {
	var sleeping []bool
	l := Waiters{Sleeping: func(s bool) { sleeping = append(sleeping, s) }}
	var ready [3]atomic.Bool
	var w [3]*Waiter
	for i := range w {
		w[i] = l.Add(ready[i].Load)
	}
	if l.WakeReady() || l.Len() != 3 {
		t.Errorf("woken though nobody is ready; %d sleep", l.Len())
	}
	ready[1].Store(true)
	if !l.WakeReady() || l.Len() != 2 || len(w[1].Woken()) != 1 || len(w[0].Woken())+len(w[2].Woken()) != 0 {
		t.Errorf("the one who is ready, and nobody else, is to be woken")
	}
	if l.WakeReady() {
		t.Error("woken twice")
	}
	l.WakeOne()
	l.WakeAll()
	for i := range w {
		if len(w[i].Woken()) != 1 {
			t.Errorf("waiter %d has %d tokens", i, len(w[i].Woken()))
		}
		l.Remove(w[i])
	}
	if len(sleeping) != 2 || !sleeping[0] || sleeping[1] {
		t.Errorf("told %v, want that somebody sleeps and then that nobody does", sleeping)
	}
	if w := l.Add(ready[0].Load); len(w.Woken()) != 0 {
		t.Error("a token of an earlier sleep was left")
	}
}

func TestManySleepersAreAllWoken(t *testing.T) {
	var l Waiters
	var all sync.WaitGroup
	var done [64]atomic.Bool
	for i := range done {
		all.Go(func() {
			w := l.Add(done[i].Load)
			defer l.Remove(w)
			if !done[i].Load() {
				<-w.Woken()
			}
		})
	}
	for i := range done {
		done[i].Store(true)
		l.WakeReady()
	}
	all.Wait()
}

func TestSleepingAllocatesNothingInTheLongRun(t *testing.T) {
	var l Waiters
	ready := func() bool { return false }
	l.Remove(l.Add(ready))
	if n := testing.AllocsPerRun(100, func() { l.Remove(l.Add(ready)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
