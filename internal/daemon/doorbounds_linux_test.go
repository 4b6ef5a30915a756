package daemon

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// connected returns the daemon's end of a connection.
func connected(t *testing.T) *ctl.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nic.sock")
	l, err := ctl.Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	other, err := ctl.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// enterAs enters a process as a caller. Its connections are all the same one, so that many need
// no descriptors.
func enterAs(t *testing.T, h *door, conn *ctl.Client, pid int) *client {
	t.Helper()
	conn.Peer.PID = pid
	c, err := h.enter(conn)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A program that only opens connections must not keep others out.
func TestTheStrangerThatWasSilentTheLongestMakesWay(t *testing.T) {
	h, conn := newDoor(Config{}), connected(t)
	var all []*client
	began := time.Now().Add(-time.Hour)
	for i := range limits.Strangers {
		c := enterAs(t, h, conn, 1+i/limits.StrangersPerProcess)
		c.heard = began.Add(time.Duration(i) * time.Second)
		all = append(all, c)
	}
	process := all[0] // silent the longest, but a process
	h.attached(process, &session{})
	if h.strangers != limits.Strangers-1 || process.caller.strangers != limits.StrangersPerProcess-1 || !process.heard.IsZero() {
		t.Errorf("with one that has attached there are %d strangers, %d of its caller", h.strangers, process.caller.strangers)
	}
	enterAs(t, h, conn, 1000) // takes the stranger's place that the attached one left
	if all[1].heard.IsZero() {
		t.Error("a stranger makes way though there is room")
	}
	h.spend(all[1], 1)  // it has asked for something
	h.spend(process, 1) // and so has the process, which is no stranger by that
	enterAs(t, h, conn, 1001)
	if all[1].heard.IsZero() || !all[2].heard.IsZero() || all[2].caller.strangers != limits.StrangersPerProcess-2 || h.strangers != limits.Strangers {
		t.Errorf("the one that was silent the longest has made way: %v; there are %d strangers", all[2].heard.IsZero(), h.strangers)
	}
	if _, err := conn.Receive(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("its connection: %v; expected that it is closed", err)
	}
	for _, c := range all {
		h.exit(c)
	}
	if h.strangers != 2 || len(h.clients) != 2 {
		t.Errorf("%d strangers and %d connections are left; expected 2", h.strangers, len(h.clients))
	}
	for pid := 1; pid <= limits.Strangers/limits.StrangersPerProcess; pid++ {
		if w := h.callers[pid]; w.open != 0 || w.strangers != 0 {
			t.Errorf("process %d has %d connections, and %d that have not attached", pid, w.open, w.strangers)
		}
	}
}

// A bounded number of clients is told the reason concurrently, but any number one after another.
func TestEachClientThatIsTurnedAwayLearnsTheReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nic.sock")
	l, err := ctl.Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	d := &Daemon{door: newDoor(Config{})}
	for i := range cap(d.turning) + 1 {
		tool, err := ctl.Dial(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		d.turnAway(c, ctl.ErrRefused)
		if _, err := tool.Nodes(t.Context()); !errors.Is(err, ctl.ErrRefused) {
			t.Errorf("client %d: %v; expected %v", i+1, err, ctl.ErrRefused)
		}
		tool.Close()
		eventually(t, "the return of its token", func() bool { return len(d.turning) == 0 })
	}
}

func TestNoConnectionEntersAtTheEnd(t *testing.T) {
	h := newDoor(Config{})
	h.closing = true
	if _, err := h.enter(&ctl.Client{}); !errors.Is(err, ctl.ErrNICGone) || len(h.clients)+len(h.callers) > 0 {
		t.Errorf("%v; %d connections", err, len(h.clients))
	}
}

// The end of a daemon does not wait for a caller that owes.
func TestARequestOfACallerThatOwesWaitsForItsTurnOrTheEnd(t *testing.T) {
	h := newDoor(Config{})
	ctx, cancel := context.WithCancel(t.Context())
	h.ctx = ctx
	c := enterAs(t, h, connected(t), 1)
	c.caller.allowance, c.caller.counted = -limits.MostOwed, time.Now().Add(time.Hour)
	begun := make(chan struct{})
	go func() { h.begin(c); close(begun) }()
	eventually(t, "its turn", func() bool { return len(c.caller.turn) == 1 })
	select {
	case <-begun:
		t.Error("the request of a caller that owes does not wait")
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	<-begun
	c.end()
	if len(c.caller.turn) != 0 {
		t.Error("behind the request its turn is taken")
	}
	other := enterAs(t, h, connected(t), 2)
	for range limits.RequestsAtATime {
		h.begin(other)
	}
	more := make(chan struct{})
	go func() { h.begin(other); close(more) }()
	select {
	case <-more:
		t.Errorf("more than %d requests of one caller are served at once", limits.RequestsAtATime)
	case <-time.After(20 * time.Millisecond):
	}
	other.end()
	<-more
}
