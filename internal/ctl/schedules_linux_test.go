package ctl

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/weftnet/weft/internal/interleave"
	"golang.org/x/sys/unix"
)

// Each test here runs a few steps of the callers of an attached process, of the listener for its
// wake-ups, and of its daemon, in every order. The wake socket is a real one. All other memory
// that the NIC and the process share is plain, with a step where the real one is an atomic word.

// comes reports whether a read of the wake socket returns at once. The rewritten source waits for
// that.
func (a *Attachment) comes() bool {
	c, err := a.wake.SyscallConn()
	if err != nil {
		return true // closed
	}
	n := 1
	_ = c.Control(func(fd uintptr) { n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) })
	return n > 0
}

var _ = (*Attachment).comes // otherwise the source as it stands does not use it

// scheduledDaemon is the other end of an attachment.
type scheduledDaemon struct {
	r        *interleave.Run
	wake     int
	sleeping bool // the process has said that it sleeps
}

// attached makes a waiter and its daemon for one schedule.
func attached(t *testing.T, r *interleave.Run) (*Attachment, *Waiter, *scheduledDaemon) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := &scheduledDaemon{r: r, wake: pair[0]}
	a := &Attachment{wake: os.NewFile(uintptr(pair[1]), "wake"), conn: &Conn{broken: ErrNICGone, c: new(net.UnixConn)}}
	r.Check(func() error {
		d.end()
		_ = a.wake.Close()
		return nil
	})
	w := a.Waiter(Hooks{Awake: 1, Listening: func() bool { return true }, Sleeping: func(is bool) {
		interleave.Step()
		d.sleeping = is
	}})
	return a, w, d
}

// complete makes a condition true and wakes the process if it sleeps, as an engine does.
func (d *scheduledDaemon) complete(condition *bool) {
	interleave.Step()
	*condition = true
	interleave.Step()
	if d.sleeping {
		if _, err := unix.Write(d.wake, []byte{1}); err != nil {
			d.r.Failf("wake: %v", err)
		}
	}
}

// end closes the daemon's end.
func (d *scheduledDaemon) end() {
	if d.wake >= 0 {
		_ = unix.Close(d.wake)
		d.wake = -1
	}
}

// condition returns the condition of a caller: a word that the NIC writes.
func condition(of *bool) func() bool {
	return func() bool {
		interleave.Step()
		return *of
	}
}

func TestEveryScheduleOfAWakeUpAndAnAttachedProcess(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 500}, func(r *interleave.Run) {
		_, w, d := attached(t, r)
		var done [2]bool
		over := false
		r.Go("caller", func() {
			for k := range done {
				if err := w.Wait(context.Background(), condition(&done[k])); err != nil {
					r.Failf("wait %d: %v", k, err)
				}
			}
			over = true
		})
		r.Go("daemon", func() {
			for k := range done {
				d.complete(&done[k])
			}
			interleave.Block(func() bool { return over })
			d.end()
		})
	})
}

// One of the two callers looks for both, or both sleep.
func TestEveryScheduleOfTwoOfAnAttachedProcess(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 2, Least: 500}, func(r *interleave.Run) {
		_, w, d := attached(t, r)
		var done [2]bool
		over := 0
		for k := range done {
			r.Go("caller", func() {
				if err := w.Wait(context.Background(), condition(&done[k])); err != nil {
					r.Failf("wait %d: %v", k, err)
				}
				over++
			})
		}
		r.Go("daemon", func() {
			for k := range done {
				d.complete(&done[k])
			}
			interleave.Block(func() bool { return over == 2 })
			d.end()
		})
	})
}

func TestEveryScheduleOfTheEndOfADaemon(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 100}, func(r *interleave.Run) {
		_, w, d := attached(t, r)
		r.Go("caller", func() {
			if err := w.Wait(context.Background(), condition(new(bool))); !errors.Is(err, ErrNICGone) {
				r.Failf("wait: %v", err)
			}
		})
		r.Go("daemon", func() {
			interleave.Step()
			d.end()
		})
	})
}

// A completion before the end counts, whenever it is seen.
func TestEveryScheduleOfACompletionBeforeTheEnd(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 100}, func(r *interleave.Run) {
		_, w, d := attached(t, r)
		done := false
		r.Go("caller", func() {
			if err := w.Wait(context.Background(), condition(&done)); err != nil {
				r.Failf("wait: %v", err)
			}
		})
		r.Go("daemon", func() {
			d.complete(&done)
			d.end()
		})
	})
}

func TestEveryScheduleOfAnAttachmentThatIsClosed(t *testing.T) {
	interleave.Explore(t, interleave.Options{Delays: 3, Least: 100}, func(r *interleave.Run) {
		a, w, _ := attached(t, r)
		r.Go("caller", func() {
			if err := w.Wait(context.Background(), condition(new(bool))); !errors.Is(err, ErrClosed) {
				r.Failf("wait: %v", err)
			}
		})
		r.Go("closer", func() {
			interleave.Step()
			_ = a.Close() // the connection has ended
		})
	})
}
