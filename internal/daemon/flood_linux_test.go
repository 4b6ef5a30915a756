package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// accepted returns the daemon's side of a connection of another process.
func accepted(t *testing.T, pid int) *ctl.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.sock")
	l, err := ctl.Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := ctl.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.Peer.PID = pid
	return conn
}

// If strangers have all the connections that they may have, a new one displaces the one that has
// been silent longest. Neither an attached process nor a tool that has just asked loses its
// connection.
func TestAFloodOfConnectionsEndsTheOneThatIsSilentTheLongest(t *testing.T) {
	h := newDoor(Config{})
	var pid int
	enter := func(silent time.Duration) *client {
		t.Helper()
		pid++
		c, err := h.enter(accepted(t, pid))
		if err != nil {
			t.Fatal(err)
		}
		c.heard = c.heard.Add(-silent)
		return c
	}
	attached := enter(3 * time.Hour)
	h.attached(attached, &session{})
	all := []*client{enter(time.Hour), enter(2 * time.Hour), enter(time.Minute), enter(30 * time.Minute)}
	for _, next := range []int{1, 0, 2} {
		if next == 2 { // the fourth is silent no longer
			h.begin(all[3])
			all[3].end()
		}
		h.strangers = limits.Strangers
		newest := enter(0)
		if h.strangers != limits.Strangers {
			t.Errorf("%d strangers are counted, expected %d", h.strangers, limits.Strangers)
		}
		if !errors.Is(all[next].conn.Close(), net.ErrClosed) {
			t.Errorf("connection %d, which was silent the longest, is open", next)
		}
		h.exit(all[next])
		if newest.heard.IsZero() || all[3].heard.IsZero() {
			t.Errorf("the new connection was dismissed: %v; the fourth: %v", newest.heard.IsZero(), all[3].heard.IsZero())
		}
	}
	for what, c := range map[string]*client{"the process that is attached": attached, "the tool that has just asked": all[3]} {
		if errors.Is(c.conn.Close(), net.ErrClosed) {
			t.Errorf("%s has lost its connection", what)
		}
	}
}

// A process that is refused leaves nothing at the daemon: no descriptor, no slot, and no memory.
func TestAnAttachThatIsRefusedLeavesNothing(t *testing.T) {
	b := newBench(t)
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(all)
	}
	refused := func() {
		t.Helper()
		conn, err := ctl.Dial(t.Context(), b.d.Socket())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Attach(t.Context(), "a/0", nil); !errors.Is(err, ctl.ErrNameTaken) {
			t.Fatalf("a name that another has: %v", err)
		}
	}
	refused()
	settled := func(want int) func() bool {
		return func() bool {
			b.d.mu.Lock()
			defer b.d.mu.Unlock()
			return len(b.d.clients) == want
		}
	}
	eventually(t, "the end of the refused connection", settled(2))
	before := open()
	for range 10 {
		refused()
	}
	eventually(t, "the end of the refused connections", settled(2))
	if after := open(); after > before {
		t.Errorf("%d descriptors are open behind ten attaches that were refused, and were %d", after, before)
	}
	if n := len(b.d.processes()); n != 2 {
		t.Errorf("%d processes are listed, expected 2", n)
	}
}

// Any user may list the NICs. Only its own user and root may end a daemon.
func TestAnotherUserDoesNotEndADaemon(t *testing.T) {
	b := newBench(t)
	other := accepted(t, 4711)
	other.Peer.UID = os.Getuid() + 1
	for _, s := range []*session{nil, b.session(0)} {
		if err := b.d.answerShutdown(&client{conn: other, caller: &caller{}}, s); !errors.Is(err, ctl.ErrRefused) {
			t.Errorf("another user's shutdown: %v, expected that it is refused", err)
		}
		if err := b.d.ctx.Err(); err != nil {
			t.Fatalf("the daemon ends: %v", err)
		}
	}
}
