package daemon

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/sdnotify"
)

// supervised returns a supervisor, and the channel of its messages.
func supervised(t *testing.T) (*sdnotify.Supervisor, <-chan string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	heard := make(chan string, 100)
	go func() {
		for b := make([]byte, 256); ; {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			heard <- string(b[:n])
		}
	}()
	t.Setenv("NOTIFY_SOCKET", name)
	t.Setenv("WATCHDOG_USEC", "60000000")
	s, err := sdnotify.FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	return s, heard
}

func TestTheWatchdogHearsOfADaemonOnlyWhileItsLoopTurns(t *testing.T) {
	s, heard := supervised(t)
	d := startWatched(t, 1, func(int, *Config) {})[0]
	d.supervisor = s
	ticks := make(chan time.Time)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.beat(t.Context(), ticks)
	}()
	t.Cleanup(func() { <-done }) // t.Context is done by then
	ticks <- time.Time{}
	if got := <-heard; got != "WATCHDOG=1" {
		t.Fatalf("heard %q", got)
	}
	begun, release := make(chan struct{}), make(chan struct{})
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		d.loop.Do(func(clock.Time) { close(begun); <-release })
	}()
	<-begun
	ticks <- time.Time{} // it is taken, and the message waits for the loop
	select {
	case got := <-heard:
		t.Errorf("heard %q although the loop hangs", got)
	default:
	}
	close(release)
	<-hung
	if got := <-heard; got != "WATCHDOG=1" {
		t.Errorf("heard %q after the loop turns again", got)
	}
}

func TestASupervisorThatIsNotThereIsLoggedAndHarmsNothing(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	s, err := sdnotify.FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	d := startWatched(t, 1, func(int, *Config) {})[0]
	d.told(s.Ready())
	if !d.says("level=WARN", "the supervisor does not hear of this daemon", "no such file") {
		t.Errorf("the log has %s", d.text.String())
	}
}
