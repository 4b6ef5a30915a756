package stream

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/weftnet/weft"
)

// The end of a host fails its streams without a message to their peers, wakes each listener,
// frees the port, and removes the host from the table of hosts.
func TestTheEndOfAHostLeavesNothing(t *testing.T) {
	for _, c := range []struct{ end, want error }{{weft.ErrClosed, net.ErrClosed}, {weft.ErrNICGone, net.ErrClosed}, {weft.ErrUnreachable, syscall.ECONNRESET}} {
		h := bareHost(t)
		own, err := h.p.Port(port)
		if err != nil {
			t.Fatal(err)
		}
		stopped := false
		h.port, h.stop = own, func() { stopped = true }
		hosts.mu.Lock()
		hosts.of[h.p] = h
		hosts.mu.Unlock()
		a, b := h.bare(), h.bare()
		l := &Listener{h: h, addr: Addr{h.p.Name(), "x"}, came: h.p.Runtime().NewGate()}
		h.listeners["x"] = l
		h.end(c.end)
		for i, s := range []*Conn{a, b} {
			if _, err := s.readNow(make([]byte, 1)); !errors.Is(err, c.want) || s.allDue() != nil {
				t.Errorf("%v: stream %d: %v; expected %v", c.end, i, err, c.want)
			}
		}
		if err := l.came.Wait(t.Context()); err != nil {
			t.Errorf("%v: no Accept is woken: %v", c.end, err)
		}
		if conn, err := l.next(); conn != nil || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v: Accept returns %v, %v", c.end, conn, err)
		}
		if err := h.gone(); !errors.Is(err, c.want) || !stopped {
			t.Errorf("%v: the error of later calls is %v, and the goroutines are stopped: %v", c.end, err, stopped)
		}
		hosts.mu.Lock()
		left := hosts.of[h.p]
		hosts.of[h.p] = h // a Dial that found the host before its end
		hosts.mu.Unlock()
		if _, err := Dial(t.Context(), h.p, "b/0:x"); left != nil || !errors.Is(err, c.want) {
			t.Errorf("%v: the host is still known: %v, and a Dial returns %v", c.end, left != nil, err)
		}
		hosts.mu.Lock()
		delete(hosts.of, h.p)
		hosts.mu.Unlock()
		again, err := h.p.Port(port)
		if err != nil {
			t.Fatalf("%v: the port is not free after the end: %v", c.end, err)
		}
		_ = again.Close()
	}
}

// A process cannot use streams while something else uses their port. It can once the port is
// free.
func TestAProcessWithoutThePortOfStreamsSaysSo(t *testing.T) {
	server, client := onSwitch(t)
	taken, err := client.Port(port)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), client, "a/0:x"); !errors.Is(err, weft.ErrPortInUse) {
		t.Errorf("a Dial without the port: %v; expected %v", err, weft.ErrPortInUse)
	}
	if _, err := Listen(client, "x"); !errors.Is(err, weft.ErrPortInUse) {
		t.Errorf("a Listen without the port: %v; expected %v", err, weft.ErrPortInUse)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	c, s := dialled(t, server, client, "x")
	answers(t, c, s)
}

// Settings at their bounds are allowed. Settings beyond the bounds are refused before anything is
// created.
func TestSettingsAreCheckedFirst(t *testing.T) {
	server, _ := onSwitch(t)
	for what, lc := range map[string]*ListenConfig{"no process": {}, "a negative backlog": {Process: server, Backlog: -1}} {
		if l, err := lc.Listen("x"); l != nil || !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("%s: %v, %v", what, l, err)
		}
	}
	if _, err := Dial(t.Context(), nil, "a/0:x"); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("a Dial without a process: %v", err)
	}
	if _, err := Dial(t.Context(), nil, "nonsense"); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("a Dial to nonsense: %v", err)
	}
	hosts.mu.Lock()
	made := hosts.of[server]
	hosts.mu.Unlock()
	if made != nil {
		t.Error("refused settings have made a host")
	}
	for _, backlog := range []int{0, 1} {
		l, err := (&ListenConfig{Process: server, Backlog: backlog}).Listen("x")
		if err != nil {
			t.Fatalf("a backlog of %d: %v", backlog, err)
		}
		if want := max(backlog, DefaultBacklog*(1-backlog)); l.backlog != want {
			t.Errorf("a backlog of %d is %d; expected %d", backlog, l.backlog, want)
		}
		if _, err := Listen(server, "x"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a second listener: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a second Close: %v", err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	told := 0
	d := &Dialer{Process: server, Requested: func() { told++ }}
	if _, err := d.Dial(ended, "b/0:x"); !errors.Is(err, context.Canceled) || told == 0 {
		t.Errorf("a Dial whose context has ended: %v, and Requested was called %d times", err, told)
	}
}
