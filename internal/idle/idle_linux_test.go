package idle

import (
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
	for range 2 { // each lives on a thread of its own, which ends with it; both on one core
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
