package ctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAWaitEndsWithItsContextAndAWakeHasItLookAgain(t *testing.T) {
	a, _, _, stop := attachTest(t)
	defer stop()
	var w words
	waiter := a.Waiter(Hooks{Listening: w.listening.Load, Sleeping: w.sleeping.Store})
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() { waits <- waiter.Wait(ctx, func() bool { return false }) }()
	for !w.sleeping.Load() {
		time.Sleep(100 * time.Microsecond)
	}
	cancel()
	if err := ends(t, "a wait", func() error { return <-waits }); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that sleeps: %v; expected %v", err, context.Canceled)
	}
	if err := waiter.Wait(ctx, func() bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait of a context that has ended: %v", err)
	}
	if err := waiter.Wait(ctx, func() bool { return true }); err != nil {
		t.Errorf("a wait for what is there: %v", err)
	}
	for w.sleeping.Load() {
		time.Sleep(100 * time.Microsecond)
	}
	var done atomic.Bool
	go func() { waits <- waiter.Wait(t.Context(), done.Load) }()
	for !w.sleeping.Load() {
		time.Sleep(100 * time.Microsecond)
	}
	done.Store(true)
	waiter.Wake() // in place of the NIC
	if err := ends(t, "a wait that is woken", func() error { return <-waits }); err != nil {
		t.Error(err)
	}
	w.listening.Store(false)
	waiter.Kick()
	w.listening.Store(true)
	waiter.Kick()
	if kicks, _ := waiter.SystemCalls(); kicks != 1 {
		t.Errorf("%d system calls of two kicks, of which one found the NIC listening", kicks)
	}
}

// Another returns a separate connection, to the same link of the same daemon.
func TestAnotherConnectionWaitsForNoneOfTheFirst(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	links := make(chan string, 2)
	path := serve(t, func(c *Client, r *Request) error {
		links <- r.Link
		if r.Op == OpShutdown {
			<-over
		}
		return c.Reply(&Reply{})
	})
	first, err := DialLink(t.Context(), path+"#slow", "fast0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	go first.Shutdown(t.Context())
	<-links
	other, err := first.Another(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := ends(t, "a request of the other", func() error { _, err := other.Nodes(t.Context()); return err }); err != nil {
		t.Error(err)
	}
	if l := <-links; l != "fast0" {
		t.Errorf("the other asks for link %q; expected fast0", l)
	}
}

func TestTheEndOfADaemonIsAwaited(t *testing.T) {
	agreed, over := make(chan struct{}, 1), make(chan struct{})
	path := serve(t, func(c *Client, r *Request) error {
		err := c.Reply(&Reply{})
		if r.Op == OpNames { // answers twice
			return errors.Join(err, c.Reply(&Reply{}))
		}
		agreed <- struct{}{}
		<-over
		return os.ErrClosed
	})
	c := dial(t, path)
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Ended(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprintf("%s (process %d) has not ended", path, os.Getpid())) {
		t.Errorf("a daemon that goes on: %v", err)
	}
	if _, err := c.Nodes(t.Context()); !errors.Is(err, ErrNICGone) {
		t.Errorf("a request behind it: %v; expected %v", err, ErrNICGone)
	}
	close(over)
	if err := ends(t, "the daemon", func() error { return c.Ended(t.Context()) }); err != nil {
		t.Errorf("a daemon that has ended: %v", err)
	}
	talks := dial(t, path)
	if _, err := talks.Names(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := talks.Ended(t.Context()); err == nil || !strings.Contains(err.Error(), "was not asked") {
		t.Errorf("a daemon that goes on to answer: %v", err)
	}
}

func TestTheCountersOfADaemonCannotBeWritten(t *testing.T) {
	fd := memfd(t, 4096)
	if _, err := unix.Pwrite(fd, []byte("counters"), 0); err != nil {
		t.Fatal(err)
	}
	c := dial(t, serve(t, func(c *Client, _ *Request) error { return c.Reply(&Reply{Info: &Info{PID: 5}}, fd) }))
	info, counters, unmap, err := c.Stat(t.Context())
	if err != nil || info.PID != 5 || !bytes.HasPrefix(counters, []byte("counters")) {
		t.Fatalf("%+v, %v", info, err)
	}
	if unix.Mprotect(counters, unix.PROT_READ) != nil || !mapped(counters) {
		t.Error("the counters are not mapped")
	}
	if err := unmap(); err != nil || mapped(counters) {
		t.Errorf("unmapped: %v, %v", err, !mapped(counters))
	}
}
