package idle

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// YieldThread gives the rest of the time slice to another thread. It uses RawSyscall: the call
// returns at once, and the runtime need not know.
func YieldThread() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// switches returns how often this thread has lost its core to another although it could have
// continued. A yield that no thread takes up does not count.
func switches() int64 {
	var u unix.Rusage
	_, _, _ = unix.RawSyscall(unix.SYS_GETRUSAGE, unix.RUSAGE_THREAD, uintptr(unsafe.Pointer(&u)), 0)
	return int64(u.Nivcsw)
}

// PreciseTimers makes the calling thread's sleeps end on time. By default the kernel may end
// them 50 µs late, to save wake-ups; a delayed acknowledgement is due in 50 µs.
func PreciseTimers() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// MoveTo moves the calling thread to a processor, if it may run there. Afterwards the thread may
// still be moved to the same processors as before. The kernel takes that for the user's wish, so
// the thread does not follow a cpuset that is widened later.
func MoveTo(processor int) {
	var may, there unix.CPUSet
	if unix.SchedGetaffinity(0, &may) != nil || !may.IsSet(processor) {
		return
	}
	there.Set(processor)
	visit(&there, &may)
}

// MoveOff moves the thread of the calling goroutine to another of the processors on which it may
// run; the kernel chooses which. As with MoveTo, the thread may still be moved.
func MoveOff() {
	runtime.LockOSThread() // the thread that is moved must be the one whose mask is restored
	defer runtime.UnlockOSThread()
	var may unix.CPUSet
	here := Processor()
	if here < 0 || unix.SchedGetaffinity(0, &may) != nil {
		return
	}
	there := may
	if there.Clear(here); there.Count() > 0 {
		visit(&there, &may)
	}
}

// visit makes the calling thread run on the processors of there, and then restores its mask to
// may.
func visit(there, may *unix.CPUSet) {
	if unix.SchedSetaffinity(0, there) != nil || unix.SchedSetaffinity(0, may) == nil {
		return
	}
	var everywhere unix.CPUSet // its cpuset has changed meanwhile
	for i := range 8 * int(unsafe.Sizeof(everywhere)) {
		everywhere.Set(i)
	}
	_ = unix.SchedSetaffinity(0, &everywhere) // the cpuset limits this
}
