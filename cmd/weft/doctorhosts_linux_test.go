package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/doctor"
	"github.com/weftnet/weft/internal/testbed"
)

// doctoredHosts are two hosts of a testbed, each with a NIC that knows the other one.
type doctoredHosts struct {
	*doctored
	bed    *testbed.Testbed
	socket string // on the first host
}

func newDoctoredHosts(t *testing.T, c testbed.Config) *doctoredHosts {
	t.Helper()
	bed, err := testbed.New(c)
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.Close() })
	h := &doctoredHosts{newDoctored(t), bed, ""}
	h.socket = h.path("0.sock")
	return h
}

// start starts both NICs.
func (h *doctoredHosts) start(t *testing.T) {
	t.Helper()
	for i, name := range []string{"0.sock", "1.sock"} {
		c := h.bed.Host(i).Command(t.Context(), h.path("weft"), "nic", "--socket", h.path(name),
			"--listen", h.bed.Host(i).Addr().String(), "--node", h.bed.Host(1-i).Addr().String())
		c.Env = h.env
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	}
	t.Cleanup(func() { weft("nic", "stop", "--socket", h.socket) })
}

// on runs a program on a host.
func (h *doctoredHosts) on(t *testing.T, host int, args ...string) (out, stderr string, err error) {
	t.Helper()
	c := h.bed.Host(host).Command(t.Context(), args[0], args[1:]...)
	c.Env = h.env
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err = c.Run()
	return o.String(), e.String(), err
}

func (h *doctoredHosts) shell(t *testing.T, host int, command string) {
	t.Helper()
	if out, stderr, err := h.on(t, host, "sh", "-ec", command); err != nil {
		t.Fatalf("%s: %v %s%s", command, err, out, stderr)
	}
}

// look runs weft doctor on the first host. It reports false if the NIC there knows no other one.
func (h *doctoredHosts) look(t *testing.T) (found []doctor.Finding, ok bool) {
	t.Helper()
	if status, out, _ := weft("nodes", "--socket", h.socket); status != 0 || !strings.Contains(out, " up ") {
		return nil, false
	}
	out, stderr, _ := h.on(t, 0, h.path("weft"), "doctor", "--json", "--socket", h.socket)
	return findings(t, out), stderr == ""
}

// mended waits for an ill on the first host, runs its command there, and waits until it is gone.
func (h *doctoredHosts) mended(t *testing.T, ill string, whole func(f *doctor.Finding) bool) {
	t.Helper()
	var f doctor.Finding
	eventually(t, "the ill is found", func() bool {
		found, ok := h.look(t)
		if ok = ok && len(found) == 1 && found[0].Ill == ill && whole(&found[0]); ok {
			f = found[0]
		}
		return ok
	})
	h.shell(t, 0, f.Mend)
	eventually(t, "nothing is found", func() bool {
		found, ok := h.look(t)
		return ok && len(found) == 0
	})
}

// The switch drops long frames, and both interfaces permit them.
func TestAPathThatDropsLongFramesIsFoundAndTheCommandNarrowsTheInterface(t *testing.T) {
	h := newDoctoredHosts(t, testbed.Config{Hosts: 2, Lossy: true})
	if err := h.bed.Host(1).SetPathMTU(1400); err != nil {
		t.Fatal(err)
	}
	h.start(t)
	h.mended(t, "mtu", func(f *doctor.Finding) bool {
		if !strings.Contains(f.What, testbed.Interface) {
			t.Errorf("the finding does not name the interface: %s", f.What)
		}
		// the NIC searches for a while
		return strings.Contains(f.Mend, "mtu 13") || strings.Contains(f.Mend, "mtu 1400")
	})
}

// A rule of the other host stands for a network card that loses batches. It sees them before they
// are cut.
func TestSegmentationOffloadThatLosesFramesIsFoundAndTheCommandSwitchesItOff(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip(err)
	}
	h := newDoctoredHosts(t, testbed.Config{Hosts: 2})
	// hosts bound the rate of the errors that the check counts
	h.shell(t, 1, "sysctl -qw net.ipv4.icmp_ratelimit=0; nft 'add table ip f; "+
		"add chain ip f in { type filter hook prerouting priority 0; }; add rule ip f in udp dport 7 meta length > 700 drop'")
	h.start(t)
	h.mended(t, "gso", func(*doctor.Finding) bool { return true })
	text, err := os.ReadFile(h.path("0.state/nic.log"))
	if err != nil || !strings.Contains(string(text), "gso=none") {
		t.Errorf("the log of the restarted daemon is %s, %v; expected that it has no offload", text, err)
	}
}
