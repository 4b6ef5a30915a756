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

// output carries one stream of a rank to Config.Output. One goroutine reads, cuts and delivers, so
// a slow receiver stops the reading, and then the rank.
type output struct {
	from    *os.File // the pipe's read end, nonblocking
	deliver func([]byte) error
	whole   bool          // deliver whole lines
	delay   time.Duration // of an incomplete line

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
		delay:   s.cfg.lineDelay(),
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
		n, err := o.read(o.deadline(partial))
		o.buf = o.buf[:len(o.buf)+n]
		o.left -= n
		line := bytes.IndexByte(o.buf, '\n') >= 0
		late := !partial.IsZero() && !line && !time.Now().Before(partial)
		if ferr := o.flush(err != nil || late || o.over()); ferr != nil || err != nil {
			return
		}
		switch {
		case len(o.buf) == 0:
			partial = time.Time{}
		case partial.IsZero() || line: // another line has begun
			partial = time.Now().Add(o.delay)
		}
		if o.over() {
			o.finish()
		}
	}
}

// read reads the next bytes. At the deadline it returns 0 and no error.
func (o *output) read(deadline time.Time) (int, error) {
	if err := o.from.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	if o.ended.Load() && o.until.IsZero() { // drain may have set its deadline before the one above
		o.until = time.Now().Add(limits.RankDrainDelay)
		o.left = o.inPipe() // exact if no other process writes
		return 0, nil
	}
	into := o.buf[len(o.buf):cap(o.buf)]
	n, err := o.from.Read(into)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	// Go reads nothing after a deadline. If this goroutine is late, a line's end may be in the pipe
	// already.
	if o.inPipe() == 0 || o.from.SetReadDeadline(time.Time{}) != nil {
		return 0, nil
	}
	if n, err = o.from.Read(into); errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil // of drain
	}
	return n, err
}

// inPipe returns how many bytes the pipe holds.
func (o *output) inPipe() (n int) {
	if c, err := o.from.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}

// deadline returns when the next read must end: at partial, or when the wait for the pipe's end is
// over.
func (o *output) deadline(partial time.Time) time.Time {
	if o.until.IsZero() || o.done || !partial.IsZero() && partial.Before(o.until) {
		return partial
	}
	return o.until
}

// over reports whether the rank's own bytes are read and the wait for the pipe's end is over.
func (o *output) over() bool {
	return !o.until.IsZero() && o.left <= 0 && !time.Now().Before(o.until)
}

// flush delivers the whole lines, or everything.
func (o *output) flush(all bool) error {
	n := len(o.buf)
	if o.whole && !all {
		// A full buffer without a newline leaves as it is: its line has reached the bound.
		if end := bytes.LastIndexByte(o.buf, '\n') + 1; end > 0 || n < cap(o.buf) {
			n = end
		}
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

// drain waits until the output of a rank that has ended is delivered. If another process keeps a
// pipe open, drain waits for the rank's own bytes, and at least limits.RankDrainDelay. Later output
// of the other process is still delivered.
func drain(streams ...*output) {
	for _, o := range streams {
		o.ended.Store(true)
		_ = o.from.SetReadDeadline(time.Now()) // wakes run
	}
	for _, o := range streams {
		<-o.drained
	}
}
