//go:build linux && (amd64 || arm64)

package standin

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is guarded memory. The handler accesses the fields by their offsets.
type Memory struct {
	start atomic.Uintptr
	end   atomic.Uintptr // 0: the entry is free
	next  *Memory
	fault atomic.Uintptr // address of the first fault
}

var (
	mu     sync.Mutex             // held to change the list; the handler may read it at any time
	list   atomic.Pointer[Memory] // entries stay in it, and are reused
	free   []*Memory
	faults atomic.Uint32 // counted by the handler
	segv   uintptr       // the handlers that were installed before
	bus    uintptr
)

// Guard guards mem: at the first access to a part of mem that is not available or not writable,
// zeros replace all of mem. mem must consist of whole pages, and must not be unmapped before
// Release.
func Guard(mem []byte) (*Memory, error) {
	mu.Lock()
	defer mu.Unlock()
	if err := install(); err != nil {
		return nil, err
	}
	if len(free) == 0 {
		m := &Memory{next: list.Load()}
		list.Store(m)
		free = append(free, m)
	}
	n := len(free) - 1
	m := free[n]
	free = free[:n]
	start := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	m.fault.Store(0)
	m.start.Store(start)
	m.end.Store(start + uintptr(len(mem)))
	return m, nil
}

// Release ends the guarding of m.
func (m *Memory) Release() {
	mu.Lock()
	defer mu.Unlock()
	m.end.Store(0)
	free = append(free, m)
}

// Fault returns the address of the first fault in m, or 0 if there was none. After a fault, m
// holds zeros.
func (m *Memory) Fault() uintptr { return m.fault.Load() }

// Faults returns a number that changes with each fault in guarded memory.
func Faults() uint32 { return faults.Load() }

// action is the kernel's struct sigaction.
type action struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// install installs the handler before Go's. It uses the stack, the mask and the restorer that Go
// has set. The caller holds mu.
func install() error {
	for _, s := range []struct {
		signal unix.Signal
		old    *uintptr
	}{{unix.SIGSEGV, &segv}, {unix.SIGBUS, &bus}} {
		if *s.old != 0 {
			continue
		}
		var a action
		if err := sigaction(s.signal, nil, &a); err != nil {
			return err
		}
		*s.old = a.handler
		a.handler = handlerAddress()
		if err := sigaction(s.signal, &a, nil); err != nil {
			*s.old = 0
			return err
		}
	}
	return nil
}

func sigaction(signal unix.Signal, to, old *action) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(to)),
		uintptr(unsafe.Pointer(old)), 8, 0, 0); errno != 0 {
		return fmt.Errorf("handler of %v: %w", signal, errno)
	}
	return nil
}

// handler is called by the kernel. In Go, only the next line names it.
func handler()

var _ = handler

// handlerAddress returns the address of handler.
func handlerAddress() uintptr
