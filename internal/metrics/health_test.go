package metrics

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// stale makes the next look check again.
func (h *health) stale() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = nil
}

func TestALoopThatHangsIsNamedAndAskedOnce(t *testing.T) {
	good, hangs := nicOf(t, "fast0", 0), nicOf(t, "slow0", 0)
	release := make(chan struct{})
	var jobs atomic.Int32
	hangs.Job = func() { jobs.Add(1); <-release }
	h := newHealth(daemonOf(good, hangs))
	h.patience = time.Millisecond
	for range 50 {
		h.stale()
		err := h.alive()
		if err == nil || !strings.Contains(err.Error(), "link slow0: the loop has made no progress") ||
			strings.Contains(err.Error(), "fast0") && !strings.Contains(err.Error(), "link fast0: the loop") {
			t.Fatalf("health: %v; want slow0 to be named", err)
		}
	}
	if n := jobs.Load(); n != 1 {
		t.Errorf("the loop that hangs has %d jobs; want 1", n)
	}
	close(release)
	h.patience = patience
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		h.stale()
		err := h.alive()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the loop runs again, and is said to hang: %v", err)
		}
	}
}

func TestAFloodOfQuestionsCostsALoopNoMoreThanOne(t *testing.T) {
	n := nicOf(t, "udp", 0)
	var jobs atomic.Int32
	n.Job = func() { jobs.Add(1) }
	h := newHealth(daemonOf(n))
	h.look()
	h.mu.Lock()
	h.at = time.Now().Add(time.Hour) // the result stays fresh, however slow this machine is
	h.mu.Unlock()
	for range 1000 {
		h.alive()
		h.ready()
	}
	if got := jobs.Load(); got != 1 {
		t.Errorf("2000 questions were %d jobs; want 1", got)
	}
}

func TestReadinessTellsWhyProcessesAreNotServed(t *testing.T) {
	for want, spoil := range map[string]func(d *Daemon){
		"going down":                       func(d *Daemon) { d.Accepts = func() error { return errors.New("going down") } },
		"interface eth0 is down":           func(d *Daemon) { d.NICs[0].LinkUp = func() error { return errors.New("interface eth0 is down") } },
		"all 1024 slots for processes are": func(d *Daemon) { d.NICs[0].Page.Store(vni.NICProcessesNow, 1024) },
	} {
		d := daemonOf(nicOf(t, "udp", 0))
		spoil(d)
		s := serve(t, loopback(), d)
		if status, body := s.get(readyPath); status != http.StatusServiceUnavailable || !strings.Contains(body, "link udp: "+want) {
			t.Errorf("readyz: %d, %s; want 503 with %q", status, body, want)
		}
		if status, body := s.get(healthPath); status != http.StatusOK || body != "ok\n" {
			t.Errorf("healthz: %d, %s; the daemon lives", status, body)
		}
		if got := s.value(`weft_nic_ready{link="udp"}`); got != "0" {
			t.Errorf("weft_nic_ready is %s; want 0", got)
		}
	}
}
