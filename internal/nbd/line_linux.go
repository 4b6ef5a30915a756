package nbd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// line is a connection with its own socket. The goroutine that reads waits at the socket in the
// kernel. With the runtime's poller, it takes as long to tell a goroutine about a request as to
// fetch a page over a network: the kernel wakes the thread that waits for all sockets, and this
// thread wakes another thread for the goroutine. The kernel also wakes that thread at each
// request that the goroutine has already read itself.
type line struct {
	local, remote net.Addr

	// Read-locked while a call uses the socket. Close locks it to close the socket.
	using sync.RWMutex
	fd    int
	ended atomic.Bool // no new call begins

	reads, writes atomic.Int64 // deadlines, in ns since begun; 0: none
}

var begun = time.Now()

// own replaces a connection by a line and closes the connection. If the connection has no socket,
// own returns it unchanged.
func own(c net.Conn) net.Conn {
	s, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return c
	}
	fd := -1
	if raw.Control(func(its uintptr) { fd, err = unix.FcntlInt(its, unix.F_DUPFD_CLOEXEC, 0) }) != nil || err != nil {
		return c
	}
	l := &line{local: c.LocalAddr(), remote: c.RemoteAddr(), fd: fd}
	_ = c.Close() // the runtime's poller no longer watches it; the socket stays
	return l
}

// Read implements net.Conn. It reads by package syscall, as a socket of package net does. So the
// race detector knows the order between a request and the client's answer.
func (l *line) Read(b []byte) (int, error) {
	n, err := l.try("read", unix.POLLIN, &l.reads, func() (int, error) { return syscall.Read(l.fd, b) })
	if err == nil && n == 0 && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

// readNow reads bytes that have already arrived. It returns errNone if there are none.
func (l *line) readNow(b []byte) (int, error) {
	l.using.RLock()
	defer l.using.RUnlock()
	if l.ended.Load() {
		return 0, net.ErrClosed
	}
	n, err := syscall.Read(l.fd, b)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, errNone
	case err != nil:
		return 0, fmt.Errorf("nbd: %w", os.NewSyscallError("read", err))
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements net.Conn.
func (l *line) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var some int
		some, err = l.try("write", unix.POLLOUT, &l.writes, func() (int, error) { return syscall.Write(l.fd, b[n:]) })
		n += some
	}
	return n, err
}

// writeAll writes several buffers in order.
func (l *line) writeAll(bufs [][]byte) error {
	if len(bufs) == 1 {
		_, err := l.Write(bufs[0])
		return err
	}
	for len(bufs) > 0 {
		n, err := l.try("write", unix.POLLOUT, &l.writes,
			func() (int, error) { return unix.Writev(l.fd, bufs[:min(len(bufs), mostBuffers)]) })
		if err != nil {
			return err
		}
		for ; len(bufs) > 0 && n >= len(bufs[0]); bufs = bufs[1:] {
			n -= len(bufs[0])
		}
		if n > 0 {
			bufs[0] = bufs[0][n:]
		}
	}
	return nil
}

// mostBuffers is the maximum number of buffers in one call.
const mostBuffers = 64

// try calls do, and waits while do would block.
func (l *line) try(what string, events int16, deadline *atomic.Int64, do func() (int, error)) (int, error) {
	l.using.RLock()
	defer l.using.RUnlock()
	for !l.ended.Load() {
		n, err := do()
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			if err := l.wait(events, deadline.Load()); err != nil {
				return 0, fmt.Errorf("nbd: %s: %w", what, err)
			}
		default:
			return 0, fmt.Errorf("nbd: %w", os.NewSyscallError(what, err))
		}
	}
	return 0, net.ErrClosed
}

// wait waits for events until a deadline. It may return early.
func (l *line) wait(events int16, deadline int64) error {
	var until *unix.Timespec
	if deadline != 0 {
		left := deadline - int64(time.Since(begun))
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		ts := unix.NsecToTimespec(left)
		until = &ts
	}
	_, err := unix.Ppoll([]unix.PollFd{{Fd: int32(l.fd), Events: events}}, until, nil)
	if err == unix.EINTR {
		err = nil
	}
	return err
}

// Close implements net.Conn. It ends the calls in flight.
func (l *line) Close() error {
	if l.ended.Swap(true) {
		return net.ErrClosed
	}
	_ = unix.Shutdown(l.fd, unix.SHUT_RDWR) // ends their waits
	l.using.Lock()
	defer l.using.Unlock()
	return os.NewSyscallError("close", unix.Close(l.fd))
}

// SyscallConn implements syscall.Conn for [takesReplies].
func (l *line) SyscallConn() (syscall.RawConn, error) { return (*rawLine)(l), nil }

// rawLine is the socket of a line. Only Control is implemented.
type rawLine line

func (l *rawLine) Control(f func(fd uintptr)) error {
	l.using.RLock()
	defer l.using.RUnlock()
	if l.ended.Load() {
		return net.ErrClosed
	}
	f(uintptr(l.fd))
	return nil
}

func (l *rawLine) Read(func(fd uintptr) bool) error  { return errors.ErrUnsupported }
func (l *rawLine) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }

// LocalAddr implements net.Conn.
func (l *line) LocalAddr() net.Addr { return l.local }

// RemoteAddr implements net.Conn.
func (l *line) RemoteAddr() net.Addr { return l.remote }

// SetDeadline implements net.Conn.
func (l *line) SetDeadline(t time.Time) error {
	_, _ = l.SetReadDeadline(t), l.SetWriteDeadline(t)
	return nil
}

// SetReadDeadline implements net.Conn, except for calls that already wait.
func (l *line) SetReadDeadline(t time.Time) error { return set(&l.reads, t) }

// SetWriteDeadline implements net.Conn, except for calls that already wait.
func (l *line) SetWriteDeadline(t time.Time) error { return set(&l.writes, t) }

func set(deadline *atomic.Int64, t time.Time) error {
	ns := int64(0)
	if !t.IsZero() {
		ns = int64(t.Sub(begun))
	}
	deadline.Store(ns)
	return nil
}
