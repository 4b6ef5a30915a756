//go:build linux

package sdnotify

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// listen returns a supervisor's socket.
func listen(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// hears returns the next message at a supervisor's socket.
func hears(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestASupervisorHearsOfEachStepAtAPathAndAtAnAbstractName(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@weft-sdnotify-test-%d", os.Getpid())} {
		t.Setenv("NOTIFY_SOCKET", name)
		t.Setenv("WATCHDOG_USEC", "3000000")
		t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
		at := listen(t, name)
		s, err := FromEnvironment()
		if err != nil || s.Watchdog() != 3*time.Second {
			t.Fatalf("%v, %v", s.Watchdog(), err)
		}
		for _, variable := range variables {
			if v, set := os.LookupEnv(variable); set {
				t.Errorf("%s=%s is left for the children", variable, v)
			}
		}
		for _, step := range []struct {
			send func() error
			want string
		}{{s.Ready, "READY=1"}, {s.Alive, "WATCHDOG=1"}, {s.Stopping, "STOPPING=1"}} {
			if err := step.send(); err != nil {
				t.Fatal(err)
			}
			if got := hears(t, at); got != step.want {
				t.Errorf("heard %q; expected %q", got, step.want)
			}
		}
		before := monotonic()
		if err := s.Reloading(); err != nil {
			t.Fatal(err)
		}
		var usec int64
		got := hears(t, at)
		if _, err := fmt.Sscanf(got, "RELOADING=1\nMONOTONIC_USEC=%d", &usec); err != nil || usec < before.Microseconds() || usec > monotonic().Microseconds() {
			t.Errorf("heard %q, at %v to %v", got, before, monotonic())
		}
	}
}

func TestAServiceWithoutASupervisorTellsNone(t *testing.T) {
	s, err := parse("", "1000", "", 1)
	if s != nil || err != nil || s.Watchdog() != 0 || s.Ready() != nil || s.Reloading() != nil || s.Alive() != nil || s.Stopping() != nil {
		t.Errorf("%v, %v", s, err)
	}
}

func TestTheVariablesOfASupervisorAreChecked(t *testing.T) {
	for _, c := range []struct {
		socket, usec, pid string
		watchdog          time.Duration
		says              string
	}{
		{"/run/notify", "", "", 0, ""},
		{"@notify", "250000", "", 250 * time.Millisecond, ""},
		{"/run/notify", "250000", "77", 250 * time.Millisecond, ""},
		{"/run/notify", "250000", "78", 0, ""},
		{"notify", "", "", 0, "NOTIFY_SOCKET is \"notify\"; expected a path"},
		{"@", "", "", 0, "expected a path"},
		{"vsock:2:1234", "", "", 0, "expected a path"},
		{"/run/notify", "0", "", 0, "WATCHDOG_USEC is \"0\"; expected a number"},
		{"/run/notify", "9223372036854775807", "", 0, "expected a number"},
		{"/run/notify", "soon", "77", 0, "expected a number"},
	} {
		s, err := parse(c.socket, c.usec, c.pid, 77)
		if s.Watchdog() != c.watchdog || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, %v", c, s, err)
		}
	}
}

func TestASupervisorThatIsGoneIsAnErrorAndOneThatIsBackIsHeard(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	s, err := parse(name, "", "", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "notify the supervisor") {
		t.Errorf("without a socket: %v", err)
	}
	for range 2 {
		at := listen(t, name)
		if err := s.Alive(); err != nil || hears(t, at) != "WATCHDOG=1" {
			t.Error(err)
		}
		at.Close()
		os.Remove(name)
	}
}
