package userfault

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal"
)

// These constants are from <linux/userfaultfd.h>.
const (
	ioctlAPI      = 0xc018aa3f
	ioctlRegister = 0xc020aa00
	ioctlWake     = 0x8010aa02
	ioctlCopy     = 0xc028aa03
	ioctlProtect  = 0xc018aa06
	ioctlPoison   = 0xc020aa08

	apiVersion = 0xaa

	featureFlagWP       = 1 << 0
	featureMissingShmem = 1 << 5
	featureShmemWP      = 1 << 12
	featurePoison       = 1 << 14
	features            = featureFlagWP | featureMissingShmem | featureShmemWP | featurePoison

	modeMissing   = 1
	modeWP        = 2
	copyProtected = 2
	protectOn     = 1
	protectNoWake = 2

	messageBytes   = 32
	eventPageFault = 0x12
	faultWrite     = 1 << 0
	faultProtected = 1 << 1

	userModeOnly = 1          // flag of userfaultfd(2)
	ioctlNew     = 0x0000aa00 // of /dev/userfaultfd
)

// open creates a userfaultfd with the system call. If that is not permitted, open uses
// /dev/userfaultfd. If there is no such device, open creates a userfaultfd that ignores accesses
// by system calls of the program.
func open() (int, error) {
	fd, _, err := openAny()
	return fd, err
}

// openAny is open. whole is false if the userfaultfd ignores accesses by system calls.
func openAny() (fd int, whole bool, err error) {
	const flags = unix.O_CLOEXEC | unix.O_NONBLOCK
	whole = true
	got, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, flags, 0, 0)
	if errno == unix.EPERM {
		if dev, err := os.OpenFile("/dev/userfaultfd", os.O_RDWR, 0); err == nil {
			got, _, errno = unix.Syscall(unix.SYS_IOCTL, dev.Fd(), ioctlNew, flags)
			dev.Close()
		} else {
			whole = false
			got, _, errno = unix.Syscall(unix.SYS_USERFAULTFD, flags|userModeOnly, 0, 0)
		}
	}
	if errno != 0 {
		return -1, false, refusal.Of("userfaultfd", 0, errno)
	}
	return int(got), whole, nil
}

// Check returns an error if the kernel lacks something that a pager needs.
func Check() error {
	_, err := Available()
	return err
}

// Available is Check. It also reports whether a pager serves the accesses of system calls.
func Available() (whole bool, err error) {
	fd, whole, err := openAny()
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	return whole, checkAPI(fd)
}

// checkAPI returns an error if a userfaultfd lacks a feature that a pager needs.
func checkAPI(fd int) error {
	api := [3]uint64{apiVersion}
	if err := ioctl(fd, ioctlAPI, unsafe.Pointer(&api)); err != nil {
		return fmt.Errorf("userfaultfd: %w", err)
	}
	if lacks := features &^ api[1]; lacks != 0 {
		return fmt.Errorf("userfaultfd lacks features %#x; expected Linux 6.6 or later", lacks)
	}
	return nil
}

func ioctl(fd int, request uintptr, p unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p)); errno != 0 {
		return errno
	}
	return nil
}

// memory is the memory of a program as its userfaultfd sees it: n bytes from base on. If the
// process or the mapping is gone, the methods do nothing and return nil.
type memory struct {
	fd   int
	base uint64
	n    uint64
}

// register makes the userfaultfd report all faults in the memory.
func (m *memory) register() error {
	api := [3]uint64{apiVersion, features}
	if err := ioctl(m.fd, ioctlAPI, unsafe.Pointer(&api)); err != nil {
		return fmt.Errorf("beginning with the userfaultfd: %w; expected one as it was created", err)
	}
	r := [4]uint64{m.base, m.n, modeMissing | modeWP}
	if err := ioctl(m.fd, ioctlRegister, unsafe.Pointer(&r)); err != nil {
		return fmt.Errorf("registering %d bytes at %#x: %w; expected the address of a shared mapping of all the memory",
			m.n, m.base, err)
	}
	return nil
}

// gone reports whether an error means that no program exists any more that could wait for the
// page.
func gone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// put puts a page from the caller's buffer into a hole of the memory.
func (m *memory) put(offset uint64, page []byte, writable bool) error {
	c := [5]uint64{m.base + offset, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(page)))),
		uint64(len(page)), copyProtected}
	if writable {
		c[3] = 0
	}
	return inParts(&c, func() error { return ioctl(m.fd, ioctlCopy, unsafe.Pointer(&c)) })
}

// inParts repeats a copy until the kernel has done all of it. The kernel stops in between when
// the mapping changes. c holds the destination, the source, the length, the mode, and the number
// of bytes that the last call copied.
func inParts(c *[5]uint64, call func() error) error {
	for {
		c[4] = 0
		err := call()
		switch copied := int64(c[4]); {
		case err == nil || gone(err):
			return nil
		case !errors.Is(err, unix.EAGAIN):
			return err
		case copied > 0: // the mapping changed in between
			c[0], c[1], c[2] = c[0]+uint64(copied), c[1]+uint64(copied), c[2]-uint64(copied)
		}
	}
}

// protect makes writes to part of the memory fault, or ends that. Depending on mode, waiting
// writers then continue.
func (m *memory) protect(offset, n, mode uint64) error {
	return m.again(ioctlProtect, &[4]uint64{m.base + offset, n, mode})
}

// wake makes the threads that wait for part of the memory retry.
func (m *memory) wake(offset, n uint64) error {
	return m.again(ioctlWake, &[4]uint64{m.base + offset, n})
}

// fail makes accesses to holes in part of the memory raise SIGBUS.
func (m *memory) fail(offset, n uint64) error {
	// A protected page cannot be poisoned.
	if err := m.protect(offset, n, protectNoWake); err != nil {
		return err
	}
	err := m.again(ioctlPoison, &[4]uint64{m.base + offset, n})
	if errors.Is(err, unix.EEXIST) {
		return m.wake(offset, n)
	}
	return err
}

// again repeats a call while the mapping changes at the same time.
func (m *memory) again(request uintptr, args *[4]uint64) error {
	for {
		a := *args
		err := ioctl(m.fd, request, unsafe.Pointer(&a))
		if err == nil || gone(err) {
			return nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
}
