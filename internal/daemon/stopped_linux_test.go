package daemon_test

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
	"golang.org/x/sys/unix"
)

// A stopped daemon neither answers nor closes. A caller that waits for it has a context.Context,
// whose end ends the call.
func TestAStoppedDaemonHoldsNobodyBeyondItsPatience(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as patience with a daemon does")
	}
	c := configs(t, 1)
	d := child(t, "daemon", marshal(t, c[0]))
	p, q := mustAttach(t, c[0], "p/0"), mustAttach(t, c[0], "q/0")
	wait(t, p, "q/0")
	exchange(t, p, q, 1)
	stop(t, d)
	watch := startWatch(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	calls := map[string]<-chan error{
		"a receive":        start(func() error { _, err := p.Recv(ctx, weft.AnyProcess, 7, make([]byte, 10)); return err }),
		"a delivered send": start(func() error { return p.Peer(name(t, "q/0")).SendDelivered(ctx, 7, make([]byte, 10)) }),
		"a receive of q's": start(func() error { _, err := q.Recv(ctx, weft.AnyProcess, 7, make([]byte, 10)); return err }),
		"a call":           start(func() error { _, err := q.Peer(name(t, "p/0")).Call(ctx, 7, nil, make([]byte, 10)); return err }),
	}
	for what, errs := range calls {
		if err := ends(t, what, errs); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s at a stopped daemon ended with %v; want its context's error", what, err)
		}
	}
	watch.within(t, "all calls have ended", 4*limits.DaemonPatience)
	watch = startWatch(t)
	if err := ends(t, "a send of more than the pool holds",
		start(func() error { return q.Send(t.Context(), name(t, "p/0"), 7, make([]byte, 8<<20)) })); err == nil {
		t.Error("a send at a stopped daemon succeeded")
	}
	watch.within(t, "the send has ended", 4*limits.DaemonPatience)
	watch = startWatch(t)
	ends(t, "Close", start(func() error { p.Close(); q.Close(); return nil }))
	watch.within(t, "both are closed", 4*limits.DaemonPatience)
	if err := d.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// the daemon has survived its processes
	r, s := mustAttach(t, c[0], "r/0"), mustAttach(t, c[0], "s/0")
	wait(t, r, "s/0")
	exchange(t, r, s, 2)
}

// A request without an answer leaves open what the daemon has given or taken, so the daemon
// counts as gone for its process. Previously messages went on, but no region could be made or
// closed any more.
func TestADaemonThatAnswersNoRequestIsGoneToItsProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as patience with a daemon does")
	}
	c := configs(t, 1)
	d := child(t, "daemon", marshal(t, c[0]))
	p := mustAttach(t, c[0], "p/0")
	g, err := p.Join(t.Context(), "g", 1)
	if err != nil {
		t.Fatal(err)
	}
	// the group keeps a region
	if err := g.Gather(t.Context(), 0, make([]byte, 100), make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	var regions []*weft.Region
	for range 3 {
		r, err := p.Alloc(100)
		if err != nil {
			t.Fatal(err)
		}
		regions = append(regions, r)
	}
	stop(t, d)
	receive := start(func() error { _, err := p.Recv(t.Context(), weft.AnyProcess, 7, nil); return err })
	_, err = p.Alloc(100)
	if !errors.Is(err, weft.ErrNICGone) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a region of a stopped daemon: %v; expected %v, and for how long it has not answered", err, weft.ErrNICGone)
	}
	if err := ends(t, "a receive under way", receive); !errors.Is(err, weft.ErrNICGone) {
		t.Errorf("a receive under way: %v; expected %v", err, weft.ErrNICGone)
	}
	for what, call := range controlCalls(t, p) {
		if err := call(); !errors.Is(err, weft.ErrNICGone) {
			t.Errorf("%s afterwards: %v; expected %v", what, err, weft.ErrNICGone)
		}
	}
	for i, r := range regions {
		if err := r.Close(); err != nil {
			t.Errorf("closing region %d: %v", i, err)
		}
	}
	if err := errors.Join(g.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if err := d.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for { // until the daemon has found its process gone
		_, err := attach(t.Context(), c[0].Socket, "p/0")
		if err == nil {
			return
		}
		if !errors.Is(err, weft.ErrNameTaken) {
			t.Fatal(err)
		}
	}
}

// stop stops all threads of a child.
func stop(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// one thread gets the signal, and stops the others
	if err := unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WSTOPPED, nil); err != nil {
		t.Fatal(err)
	}
}
