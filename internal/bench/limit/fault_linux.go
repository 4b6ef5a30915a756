package limit

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A page that is missing in one process is filled in by another, as by a memory server. The
// process that waits must not hand out the pages itself: its garbage collector could not stop
// the waiting thread.

const (
	uffdAPI      = 0xc018aa3f // ioctls of <linux/userfaultfd.h>
	uffdRegister = 0xc020aa00
	uffdCopy     = 0xc028aa03
	uffdVersion  = 0xaa
	uffdMissing  = 1  // mode of registering
	uffdMessage  = 32 // length of a message that is read
	uffdAddress  = 16 // offset of the address in it

	page       = 4096
	faultPages = 256
)

func ioctl(fd int, request uintptr, p unsafe.Pointer) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p)); errno != 0 {
		return errno
	}
	return nil
}

// handover returns the socket over which the file descriptor goes to the handler.
func handover(pid int) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: fmt.Sprintf("@weft-limit-%d", pid)}
}

// faultTake touches missing pages, one after the other.
func faultTake(c *child) error {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		return fmt.Errorf("%w: userfaultfd: %w", ErrUnavailable, errno)
	}
	api := [3]uint64{uffdVersion}
	if err := ioctl(int(fd), uffdAPI, unsafe.Pointer(&api)); err != nil {
		return fmt.Errorf("%w: userfaultfd: %w", ErrUnavailable, err)
	}
	mem, err := unix.Mmap(-1, 0, faultPages*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	reg := [4]uint64{uint64(uintptr(unsafe.Pointer(&mem[0]))), uint64(len(mem)), uffdMissing}
	if err := ioctl(int(fd), uffdRegister, unsafe.Pointer(&reg)); err != nil {
		return fmt.Errorf("registering memory: %w", err)
	}
	s, err := connect(unix.AF_UNIX, unix.SOCK_SEQPACKET, handover(c.Port))
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(s, []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
		return err
	}
	var sum byte
	next := 0
	return c.time(1, func() error {
		if next == faultPages {
			next = 0
			if err := unix.Madvise(mem, unix.MADV_DONTNEED); err != nil {
				return err
			}
		}
		sum += mem[next*page]
		next++
		return nil
	})
}

// faultServe fills in the pages.
func faultServe(spin bool) func(*child) error {
	return func(c *child) error {
		fd, err := c.receiveFault()
		if err != nil {
			return err
		}
		if err := unix.SetNonblock(fd, spin); err != nil {
			return err
		}
		content := make([]byte, 2*page)
		from := (uintptr(unsafe.Pointer(&content[0])) + page - 1) &^ (page - 1)
		for {
			var m [uffdMessage]byte
			_, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&m[0])), uffdMessage)
			if errno == unix.EAGAIN || errno == unix.EINTR {
				continue
			}
			if errno != 0 {
				return errno
			}
			at := binary.NativeEndian.Uint64(m[uffdAddress:]) &^ (page - 1)
			fill := [5]uint64{at, uint64(from), page}
			if err := ioctl(fd, uffdCopy, unsafe.Pointer(&fill)); err != nil && err != unix.EEXIST {
				return fmt.Errorf("filling in a page: %w", err)
			}
		}
	}
}

// receiveFault returns the file descriptor that reports faults.
func (c *child) receiveFault() (int, error) {
	conn, err := accept(unix.AF_UNIX, unix.SOCK_SEQPACKET, handover(os.Getpid()),
		func(unix.Sockaddr) error { return c.ready(os.Getpid()) })
	if err != nil {
		return -1, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(conn, make([]byte, 1), oob, 0)
	if err != nil {
		return -1, err
	}
	m, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(m) != 1 {
		return -1, fmt.Errorf("%d control messages instead of one: %w", len(m), err)
	}
	fds, err := unix.ParseUnixRights(&m[0])
	if err != nil {
		return -1, err
	}
	return fds[0], nil
}
