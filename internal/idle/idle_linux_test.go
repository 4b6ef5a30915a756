package idle

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheKernelTellsThatSomebodyRanAtAYield(t *testing.T) {
	var here unix.CPUSet
	if err := unix.SchedGetaffinity(0, &here); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !here.IsSet(cpu) {
		cpu++
	}
	here.Zero()
	here.Set(cpu)
	told, end := make(chan int64), make(chan struct{})
	for range 2 { // each lives on its own thread, which ends with it; both on one core
		go func() {
			runtime.LockOSThread()
			if err := unix.SchedSetaffinity(0, &here); err != nil {
				t.Error(err)
			}
			for before := switches(); ; {
				YieldThread()
				if n := switches() - before; n > 100 {
					told <- n
					break
				}
			}
			for {
				select {
				case <-end:
					return
				default:
					YieldThread()
				}
			}
		}()
	}
	t.Logf("%d and %d", <-told, <-told)
	close(end)
}

// onItsThread runs f on a thread that ends with it, and passes it the thread's processors.
func onItsThread(t *testing.T, f func(may *unix.CPUSet)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		var may unix.CPUSet
		if err := unix.SchedGetaffinity(0, &may); err != nil {
			t.Error(err)
			return
		}
		f(&may)
	}()
	<-done
}

// processors returns the numbers of a set.
func processors(s *unix.CPUSet) (all []int) {
	for cpu := range 64 * len(s) {
		if s.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all
}

func TestAThreadKnowsItsProcessor(t *testing.T) {
	if Processor() < 0 {
		t.Skip("this system has no cheap way to say which processor a thread is on")
	}
	onItsThread(t, func(may *unix.CPUSet) {
		for _, cpu := range processors(may) {
			var one unix.CPUSet
			one.Set(cpu)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Error(err)
			}
			if got := Processor(); got != cpu {
				t.Errorf("on processor %d, and takes it for %d", cpu, got)
			}
		}
	})
}

func TestAMovedThreadMayGoOnEverywhere(t *testing.T) {
	onItsThread(t, func(may *unix.CPUSet) {
		for _, cpu := range append(processors(may), 1<<20) {
			MoveTo(cpu)
			var now unix.CPUSet
			if err := unix.SchedGetaffinity(0, &now); err != nil || now != *may {
				t.Errorf("after a move to %d: may run at %v, %v; expected %v", cpu, processors(&now), err, processors(may))
			}
		}
		if Processor() < 0 {
			return
		}
		// The kernel may move it again at once, but not for ever.
		for _, cpu := range processors(may) {
			for MoveTo(cpu); Processor() != cpu; {
				MoveTo(cpu)
			}
		}
	})
}

func TestAThreadThatMovesOffMayComeBack(t *testing.T) {
	if Processor() < 0 {
		t.Skip("this system has no cheap way to say which processor a thread is on")
	}
	onItsThread(t, func(may *unix.CPUSet) {
		for range 10 {
			MoveOff()
			var now unix.CPUSet
			if err := unix.SchedGetaffinity(0, &now); err != nil || now != *may {
				t.Errorf("after the move: may run at %v, %v; expected %v", processors(&now), err, processors(may))
			}
		}
		if may.Count() < 2 {
			t.Log("there is no other processor to move to")
			return
		}
		// The kernel may move it back at once, but not for ever.
		for from := Processor(); Processor() == from; {
			MoveOff()
		}
		var one unix.CPUSet
		one.Set(processors(may)[0])
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		if MoveOff(); Processor() != processors(may)[0] {
			t.Error("moved to where it may not run")
		}
	})
}

func TestHowManyThreadsWantToRunIsRead(t *testing.T) {
	for _, c := range []struct {
		loads string
		n     int
		ok    bool
	}{
		{"0.20 0.18 0.12 2/80 11206\n", 2, true},
		{"12.20 9.18 8.12 117/2080 1\n", 117, true},
		{"0.20 0.18 0.12 /80 11206\n", 0, false},
		{"0.20 0.18 0.12 2 11206\n", 0, false},
		{"0.20 0.18 0.12", 0, false},
		{"", 0, false},
	} {
		if n, ok := runnable([]byte(c.loads)); n != c.n || ok != c.ok {
			t.Errorf("%q: %d, %v; expected %d, %v", c.loads, n, ok, c.n, c.ok)
		}
	}
	if _, err := os.Stat("/proc/loadavg"); err != nil {
		t.Skip("the kernel does not tell here:", err)
	}
	var b [64]byte
	n, err := unix.Pread(loads(), b[:], 0)
	if err != nil {
		t.Fatal(err)
	}
	if running, ok := runnable(b[:n]); !ok || running < 1 {
		t.Errorf("%q: %d, %v; expected this thread at least", b[:n], running, ok)
	}
}
