package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mostInput is how many bytes of input one read takes.
const mostInput = 64 << 10

// lookAtTerminal is how often a job that wants input checks whether it is in the foreground. The
// kernel sends no notice.
const lookAtTerminal = 250 * time.Millisecond

// runInput reads the input of a job, and only when a rank wants it. Unwanted input stays for the
// next reader:
//
//	terminal  one line; nothing while the job is in the background
//	file      up to 64 KiB, and the shared offset is behind what was read
//	pipe      up to 64 KiB
type runInput struct {
	from io.Reader
	file *os.File // from, if it is a file
	tty  bool

	mu  sync.Mutex // one read at a time
	buf []byte
	end error // after the end of the input
}

func newRunInput(from io.Reader) *runInput {
	in := &runInput{from: from, buf: make([]byte, mostInput)}
	if f, ok := from.(*os.File); ok {
		in.file, in.tty = f, isTTY(f)
	}
	return in
}

// Input returns the next piece of input, or io.EOF at the end. If ctx ends first, it has read
// nothing.
func (c *console) Input(ctx context.Context) ([]byte, error) { return c.in.next(ctx) }

func (in *runInput) next(ctx context.Context) ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.end != nil {
		return nil, in.end
	}
	b, err := in.read(ctx)
	if err != nil && ctx.Err() == nil {
		in.end = err
	}
	return b, err
}

func (in *runInput) read(ctx context.Context) ([]byte, error) {
	if in.file == nil {
		n, err := in.from.Read(in.buf)
		if n > 0 {
			err = nil
		}
		return bytes.Clone(in.buf[:n]), err
	}
	wake, err := newWaker(ctx)
	if err != nil {
		return nil, err
	}
	defer wake.close()
	fd := int(in.file.Fd())
	for {
		if err := in.await(ctx, fd, wake); err != nil {
			return nil, err
		}
		n, err := unix.Read(fd, in.buf)
		switch {
		case n > 0:
			return bytes.Clone(in.buf[:n]), nil
		// closed, or the terminal is gone
		case err == nil, errors.Is(err, syscall.EBADF), in.tty && errors.Is(err, syscall.EIO):
			return nil, io.EOF
		case !errors.Is(err, syscall.EINTR) && !errors.Is(err, syscall.EAGAIN):
			return nil, &os.PathError{Op: "read", Path: "standard input", Err: err}
		}
	}
}

// await waits until there is input to read, and until this job may read from the terminal.
func (in *runInput) await(ctx context.Context, fd int, wake *waker) error {
	for {
		fds := []unix.PollFd{{Fd: int32(wake.fd()), Events: unix.POLLIN}, {Fd: int32(fd), Events: unix.POLLIN}}
		wait := -1
		if in.tty && !inForeground(fd) {
			fds, wait = fds[:1], int(lookAtTerminal/time.Millisecond)
		}
		n, err := unix.Poll(fds, wait)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, syscall.EINTR):
			return err
		case err == nil && n > 0 && len(fds) == 2 && fds[1].Revents != 0 && (!in.tty || inForeground(fd)):
			return nil
		}
	}
}

// isTTY reports whether f is a terminal. NO_COLOR and a dumb terminal change nothing.
func isTTY(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// inForeground reports whether this process can read from a terminal without being stopped. A
// terminal that does not control this process stops no process.
func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// waker is a file descriptor that becomes readable when a context ends.
type waker struct {
	r, w *os.File
	stop func() bool
}

func newWaker(ctx context.Context) (*waker, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	k := &waker{r: r, w: w}
	k.stop = context.AfterFunc(ctx, func() { _, _ = w.Write([]byte{0}) })
	return k, nil
}

func (k *waker) fd() int { return int(k.r.Fd()) }

func (k *waker) close() {
	k.stop()
	_ = k.r.Close()
	_ = k.w.Close()
}

// waitWritable waits until a non-blocking file takes more bytes.
func waitWritable(w io.Writer) error {
	f, ok := w.(*os.File)
	if !ok {
		return syscall.EAGAIN
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLOUT}}, -1)
	if errors.Is(err, syscall.EINTR) {
		return nil
	}
	return err
}
