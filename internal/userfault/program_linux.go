package userfault

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal"
)

// Attach asks the pager at a socket for memory. It returns when the memory can be used.
func Attach(ctx context.Context, path string) (*Mapping, error) {
	c, err := new(net.Dialer).DialContext(ctx, Network, path)
	if err != nil {
		return nil, err
	}
	conn := c.(*net.UnixConn)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	m, err := attach(conn)
	if err != nil {
		err = fmt.Errorf("asking the pager at %s for memory: %w", path, err)
	}
	if !stop() {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		if m != nil {
			err = errors.Join(err, m.stop())
		}
		conn.Close()
		return nil, err
	}
	return m, nil
}

// attach is the program's part of the exchange.
func attach(conn *net.UnixConn) (*Mapping, error) {
	var hello [16]byte
	memfd, err := receive(conn, hello[:])
	if err != nil {
		return nil, err
	}
	defer unix.Close(memfd)
	mem, err := unix.Mmap(memfd, 0, int(binary.NativeEndian.Uint64(hello[:])),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mapping memory: %w",
			refusal.Of("mmap", int64(binary.NativeEndian.Uint64(hello[:])), err))
	}
	fd, err := open()
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(mem))
	}
	m := &Mapping{mem: mem, stop: func() error {
		// This comes first, because the end of the connection must not kill this process.
		err := endWith(conn, false)
		return errors.Join(err, unix.Munmap(mem), unix.Close(fd), conn.Close())
	}}
	// A child would have the memory without a pager. A huge page would bring pages that were not
	// requested.
	if err = unix.Madvise(mem, unix.MADV_DONTFORK); err != nil {
		err = refusal.Of("madvise", 0, err)
	}
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP)   // without this advice a core dump is only larger
	_ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE) // a kernel without huge pages lacks this advice
	if err == nil {
		err = hand(conn, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), fd)
	}
	if err == nil {
		err = endWith(conn, true)
	}
	return m, err
}

// hand sends the userfaultfd to the pager, and waits until the pager reports that the memory is
// served.
func hand(conn *net.UnixConn, address uint64, fd int) error {
	if err := send(conn, binary.NativeEndian.AppendUint64(nil, address), fd); err != nil {
		return err
	}
	answer := make([]byte, maxText)
	n, err := conn.Read(answer)
	if err != nil {
		return fmt.Errorf("handing it over: %w", err)
	}
	if text := string(answer[:n]); text != accepted {
		return fmt.Errorf("the answer is %q", text)
	}
	return nil
}

// endWith makes the kernel kill this process when the pager ends, or cancels that. Without the
// pager the memory is gone. A thread that waits for one of its pages would wait for ever. A
// goroutine that waits like this cannot be stopped for a garbage collection, so perhaps no
// goroutine could run and notice the end.
func endWith(conn *net.UnixConn, on bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) { refused = signalAtEnd(fd, on) })
	if err = errors.Join(err, refused); err != nil {
		return fmt.Errorf("watching the pager: %w", err)
	}
	return nil
}

func signalAtEnd(fd uintptr, on bool) error {
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if !on {
		_, err = unix.FcntlInt(fd, unix.F_SETFL, flags&^unix.O_ASYNC)
		return err
	}
	const setsig = 10 // F_SETSIG
	_, err = unix.FcntlInt(fd, unix.F_SETOWN, os.Getpid())
	if err == nil {
		_, err = unix.FcntlInt(fd, setsig, int(unix.SIGKILL))
	}
	if err == nil {
		_, err = unix.FcntlInt(fd, unix.F_SETFL, flags|unix.O_ASYNC)
	}
	if err == nil { // the pager may have ended before
		if n, _, peek := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT); peek == nil &&
			n == 0 {
			err = errors.New("it has ended")
		}
	}
	return err
}
