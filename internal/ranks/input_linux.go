package ranks

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
)

// input feeds the stdin of a rank through a pipe of one page.
//
// A pipe is a ring of pages, and poll(2) reports POLLOUT while a slot is free. A ring of one slot
// is therefore writable exactly when it is empty, and the kernel wakes the writer when the reader
// has taken the last byte. So the wait for an empty pipe needs no timer. FIONREAD on the write end
// confirms it: a rank that enlarges its pipe makes the pipe writable too early, and only then a
// timer asks again.
type input struct {
	num  int
	want func(rank int)
	to   *os.File // the pipe's write end, nonblocking

	mu      sync.Mutex
	pending []byte
	closed  bool // no more Feed

	fed  chan struct{} // holds one token after a change of pending or closed
	gone chan struct{} // closed when the rank has ended
	once sync.Once
}

// recheck is how often a pipe that its reader has enlarged is looked at.
const recheck = 20 * time.Millisecond

// openInput returns the child's stdin, and makes r.in if the rank has one.
func (s *Set) openInput(r *rank) (*os.File, error) {
	if !s.cfg.Stdin[r.num] {
		return os.Open(os.DevNull)
	}
	from, to, err := pipe()
	if err != nil {
		return nil, err
	}
	child := os.NewFile(uintptr(from), "input end")
	_, _ = unix.FcntlInt(uintptr(to), unix.F_SETPIPE_SZ, os.Getpagesize()) // FIONREAD decides in any case
	if err := unix.SetNonblock(to, true); err != nil {
		_, _ = child.Close(), unix.Close(to)
		return nil, fmt.Errorf("pipe: %w", err)
	}
	r.in = &input{
		num: r.num, want: s.cfg.Want, to: os.NewFile(uintptr(to), "input of a rank"),
		fed: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	return child, nil
}

// Feed queues input of a rank. It does not wait for the rank. It fails with ErrInputFull if the
// rank has 1 MiB of unread input, and with ErrNoInput if it has no stdin. It returns nil if the
// rank has ended or closed its stdin: the bytes are discarded then.
func (s *Set) Feed(rank int, b []byte) error {
	r := s.byNum[rank]
	if r == nil || r.in == nil {
		return fmt.Errorf("%w: rank %d", ErrNoInput, rank)
	}
	return r.in.feed(b)
}

// CloseStdin ends the input of a rank: the rank reads the fed bytes, and then EOF.
func (s *Set) CloseStdin(rank int) {
	if r := s.byNum[rank]; r != nil && r.in != nil {
		r.in.mu.Lock()
		r.in.closed = true
		r.in.mu.Unlock()
		r.in.wake()
	}
}

func (in *input) feed(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return nil
	}
	if len(in.pending)+len(b) > limits.RankInputBytes {
		return fmt.Errorf("%w: rank %d has %d bytes, and %d more come; the limit is %d",
			ErrInputFull, in.num, len(in.pending), len(b), limits.RankInputBytes)
	}
	in.pending = append(in.pending, b...)
	in.wake()
	return nil
}

func (in *input) wake() {
	select {
	case in.fed <- struct{}{}:
	default:
	}
}

// end stops the input of a rank that has ended.
func (in *input) end() {
	in.once.Do(func() {
		in.mu.Lock()
		in.closed, in.pending = true, nil
		in.mu.Unlock()
		close(in.gone)
		_ = in.to.Close()
	})
}

// run writes the input, and asks for more whenever the pipe is empty.
func (in *input) run() {
	defer in.end()
	asked := false
	for {
		b, closed := in.take()
		switch {
		case len(b) > 0:
			asked = false
			if !in.write(b) {
				return
			}
			continue
		case closed:
			return
		}
		if !asked {
			if !in.empty() {
				return
			}
			if b, closed := in.peek(); b > 0 || closed {
				continue
			}
			asked = true
			in.want(in.num)
		}
		select {
		case <-in.fed:
		case <-in.gone:
			return
		}
	}
}

func (in *input) take() (b []byte, closed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	b, in.pending = in.pending, nil
	return b, in.closed
}

func (in *input) peek() (pending int, closed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.pending), in.closed
}

// write writes b, and reports whether the rank can read more.
func (in *input) write(b []byte) bool {
	alive := true
	ok := in.whenWritable(func(fd int) bool {
		for len(b) > 0 {
			n, err := unix.Write(fd, b)
			switch err {
			case nil:
				b = b[n:]
			case unix.EINTR:
			case unix.EAGAIN:
				return false
			default: // EPIPE: the rank reads no more
				alive = false
				return true
			}
		}
		return true
	})
	return ok && alive
}

// empty waits until the pipe is empty, and reports whether the rank can read more.
func (in *input) empty() bool {
	for {
		var left int
		var events int16
		ok := in.whenWritable(func(fd int) bool {
			left, events = look(fd)
			return events != 0
		})
		switch {
		case !ok || events&unix.POLLERR != 0:
			return false
		case left == 0:
			return true
		}
		select { // the rank has enlarged the pipe
		case <-time.After(recheck):
		case <-in.gone:
			return false
		}
	}
}

// look returns how many bytes a pipe holds (TIOCINQ is FIONREAD), and its events. A failed look
// counts as POLLERR.
func look(fd int) (left int, events int16) {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	if _, err := unix.Poll(p, 0); err != nil {
		return 0, 0
	}
	left, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0, unix.POLLERR
	}
	return left, p[0].Revents
}

// whenWritable calls f until it returns true: at once, and whenever the pipe becomes writable or
// its reader goes. It reports whether the file is open.
func (in *input) whenWritable(f func(fd int) bool) bool {
	c, err := in.to.SyscallConn()
	if err != nil {
		return false
	}
	return c.Write(func(fd uintptr) bool { return f(int(fd)) }) == nil
}
