package ranks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/limits"
)

// output carries one stream of a rank to Config.Output. One goroutine reads, cuts and delivers, so a slow
// receiver stops the reading, and then the rank.
type output struct {
	from    *os.File // the pipe's read end, nonblocking
	deliver func([]byte) error
	whole   bool // deliver whole lines

	ended   atomic.Bool   // the rank has ended
	drained chan struct{} // closed once all that the rank wrote is delivered
	buf     []byte        // bytes that are not delivered; at most limits.RankLineBytes

	// After the rank's end:
	until time.Time // when the wait for the pipe's end is over
	left  int       // bytes that the rank wrote, and that are still in the pipe
	done  bool      // drained is closed
}

// openOutput makes the pipe of a stream. It returns the child's end, which the caller closes.
func (s *Set) openOutput(num, stream int) (*output, *os.File, error) {
	from, to, err := pipe()
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(from, true); err != nil {
		_, _ = unix.Close(from), unix.Close(to)
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return &output{
		from:    os.NewFile(uintptr(from), "output of a rank"),
		deliver: func(b []byte) error { return s.cfg.Output(num, stream, b) },
		whole:   !s.cfg.Unbuffered,
		drained: make(chan struct{}),
		buf:     make([]byte, 0, limits.RankLineBytes),
	}, os.NewFile(uintptr(to), "output end"), nil
}

func pipe() (from, to int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, 0, fmt.Errorf("pipe: %w; see ulimit -n", err)
	}
	return p[0], p[1], nil
}

// run delivers the stream until the pipe ends or the receiver fails.
func (o *output) run() {
	defer o.finish()
	defer o.from.Close()
	var partial time.Time // when the incomplete line must leave; zero without one
	for {
		if err := o.from.SetReadDeadline(o.deadline(partial)); err != nil {
			return
		}
		if o.ended.Load() && o.until.IsZero() {
			o.lastBytes() // drain may have set its deadline before the one above
			continue
		}
		n, err := o.from.Read(o.buf[len(o.buf):cap(o.buf)])
		o.buf = o.buf[:len(o.buf)+n]
		o.left -= n
		timeout := errors.Is(err, os.ErrDeadlineExceeded)
		overdue := !partial.IsZero() && !time.Now().Before(partial)
		if ferr := o.flush(err != nil && !timeout || overdue || o.over()); ferr != nil || err != nil && !timeout {
			return
		}
		switch {
		case len(o.buf) == 0:
			partial = time.Time{}
		case partial.IsZero() || n > 0 && len(o.buf) <= n:
			partial = time.Now().Add(limits.RankLineDelay)
		}
		if o.over() {
			o.finish()
		}
	}
}

// deadline returns when the next read must end: at partial, or when the wait for the pipe's end is over.
func (o *output) deadline(partial time.Time) time.Time {
	if o.until.IsZero() || o.done || !partial.IsZero() && partial.Before(o.until) {
		return partial
	}
	return o.until
}

// lastBytes notes what the ended rank has left in the pipe. The count is exact if no other process writes.
func (o *output) lastBytes() {
	o.until = time.Now().Add(limits.RankDrainDelay)
	if c, err := o.from.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { o.left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
}

// over reports whether the rank's own bytes are read and the wait for the pipe's end is over.
func (o *output) over() bool {
	return !o.until.IsZero() && o.left <= 0 && !time.Now().Before(o.until)
}

// flush delivers the whole lines, or everything.
func (o *output) flush(all bool) error {
	n := len(o.buf)
	if o.whole && !all && n < cap(o.buf) {
		n = bytes.LastIndexByte(o.buf, '\n') + 1
	}
	if n == 0 {
		return nil
	}
	err := o.deliver(o.buf[:n])
	o.buf = o.buf[:copy(o.buf, o.buf[n:])]
	return err
}

// finish notes that the output of the rank is delivered. Only run calls it.
func (o *output) finish() {
	if !o.done {
		o.done = true
		close(o.drained)
	}
}

// drain waits until the output of a rank that has ended is delivered. If another process keeps the pipe
// open, drain waits for the rank's own bytes, and at least limits.RankDrainDelay. Later output of the other
// process is still delivered.
func (o *output) drain() {
	o.ended.Store(true)
	_ = o.from.SetReadDeadline(time.Now()) // wakes run
	<-o.drained
}
