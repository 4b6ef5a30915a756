package limit

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// doorbell is a word that one side waits for and the other side rings.
type doorbell struct {
	word   *uint32
	sleeps *uint32 // the waiter is about to sleep, or sleeps
}

// bells returns the two doorbells, one for each direction, on separate cache lines.
func (c *child) bells() (there, back doorbell) {
	word := func(at int) *uint32 { return (*uint32)(unsafe.Pointer(&c.mem[at])) }
	return doorbell{word(0), word(256)}, doorbell{word(512), word(768)}
}

// FUTEX_WAIT and FUTEX_WAKE, between processes.
const (
	futexWait = 0
	futexWake = 1
)

func (d doorbell) ring(n uint32) {
	atomic.StoreUint32(d.word, n)
	if atomic.LoadUint32(d.sleeps) != 0 {
		_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(d.word)), futexWake, 1, 0, 0, 0)
	}
}

// wait returns when the word is n. After looks checks, it sleeps.
func (d doorbell) wait(n uint32, looks int) {
	for range looks {
		if atomic.LoadUint32(d.word) == n {
			return
		}
	}
	atomic.StoreUint32(d.sleeps, 1)
	for atomic.LoadUint32(d.word) != n {
		_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(d.word)), futexWait, uintptr(n-1), 0, 0, 0)
	}
	atomic.StoreUint32(d.sleeps, 0)
}

// waitYielding returns when the word is n. It yields between two checks.
func (d doorbell) waitYielding(n uint32) {
	for atomic.LoadUint32(d.word) != n {
		yield()
	}
}

func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// bellPing and bellPong ring the two bells in turn. wait says how they wait.
func bellPing(wait func(d doorbell, n uint32)) func(*child) error {
	return func(c *child) error {
		there, back := c.bells()
		n := uint32(0)
		return c.time(1, func() error {
			n++
			there.ring(n)
			wait(back, n)
			return nil
		})
	}
}

func bellPong(wait func(d doorbell, n uint32)) func(*child) error {
	return func(c *child) error {
		there, back := c.bells()
		if err := c.ready(0); err != nil {
			return err
		}
		for n := uint32(1); ; n++ {
			wait(there, n)
			back.ring(n)
		}
	}
}

func futexPing(looks int) func(*child) error {
	return bellPing(func(d doorbell, n uint32) { d.wait(n, looks) })
}

func futexPong(looks int) func(*child) error {
	return bellPong(func(d doorbell, n uint32) { d.wait(n, looks) })
}

func yieldPing(c *child) error { return bellPing(doorbell.waitYielding)(c) }
func yieldPong(c *child) error { return bellPong(doorbell.waitYielding)(c) }

func eventPing(c *child) error {
	var b [8]byte
	return c.time(1, func() error {
		signal(c.events[0])
		return await(c.events[1], &b)
	})
}

func eventPong(c *child) error {
	if err := c.ready(0); err != nil {
		return err
	}
	for b := [8]byte{}; ; {
		if err := await(c.events[0], &b); err != nil {
			return err
		}
		signal(c.events[1])
	}
}

var one = func() (b [8]byte) { binary.NativeEndian.PutUint64(b[:], 1); return b }()

// signal adds 1 to an eventfd.
func signal(fd int) {
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one[0])), 8)
}

// await blocks until an eventfd is not 0, and resets it.
func await(fd int, b *[8]byte) error {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), 8)
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}
