//go:build linux && (amd64 || arm64)

package standin

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is memory that is guarded. The handler knows the fields by their offsets.
type Memory struct {
	start atomic.Uintptr
	end   atomic.Uintptr // 0: the entry is free
	next  *Memory
	fault atomic.Uintptr // address of the first fault
}

var (
	mu     sync.Mutex             // held by what changes the list; the handler follows it at any time
	list   atomic.Pointer[Memory] // entries stay in it, and are used again
	free   []*Memory
	faults atomic.Uint32 // counted by the handler
	segv   uintptr       // the handlers that were there
	bus    uintptr
)

// Guard has zeros take the place of mem at the first access to a part of it that is not there, or
// that may not be written. mem is whole pages, and must not be unmapped before Release.
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

// Release ends that.
func (m *Memory) Release() {
	mu.Lock()
	defer mu.Unlock()
	m.end.Store(0)
	free = append(free, m)
}

// Fault is the address of the first fault in m: zeros are there since; 0 if there was none.
func (m *Memory) Fault() uintptr { return m.fault.Load() }

// Faults changes with each fault in memory that is guarded.
func Faults() uint32 { return faults.Load() }

// action is the kernel's struct sigaction.
type action struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// install puts the handler before Go's, with the stack, the mask and the way back that Go has asked
// for. With mu.
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
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), 8, 0, 0); errno != 0 {
		return fmt.Errorf("handler of %v: %w", signal, errno)
	}
	return nil
}

// handler is called by the kernel. In Go nothing but the next line names it.
func handler()

var _ = handler

// handlerAddress is where it begins.
func handlerAddress() uintptr
