package doctor

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/trust"
)

// unprivileged is the status of a process without capabilities.
const unprivileged = "Name:\tweft\nCapEff:\t0000000000000000"

func TestSmallSocketBuffersAreFoundAndTheCommandRaisesThem(t *testing.T) {
	h := newBed(t, map[string]string{
		"proc/self/status": unprivileged, "proc/sys/net/core/rmem_max": "212992", "proc/sys/net/core/wmem_max": "212992",
	}, "sysctl")
	p := &Patient{Host: h}
	f := one(t, lookBuffers, p, "net.core.rmem_max grants 212992 bytes", "net.core.wmem_max grants 212992", "4194304")
	h.run(t, f)
	gone(t, lookBuffers, p)
	h.write(t, "proc/sys/net/core/wmem_max", "4194303", 0o600)
	f = one(t, lookBuffers, p, "wmem_max")
	if strings.Contains(f.What+f.Mend, "rmem_max") {
		t.Errorf("a buffer that is large enough is named: %+v", f)
	}
	h.write(t, "proc/self/status", "CapEff:\t0000000000001000", 0o600) // CAP_NET_ADMIN
	gone(t, lookBuffers, p)
}

// The kernel of this host answers. The grant depends on the host.
func TestTheKernelTellsHowLargeABufferItGrants(t *testing.T) {
	h, err := NewHost()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{8 << 10, 1 << 30} {
		receive, send, err := h.Buffers(want)
		limit, lerr := h.Read("/proc/sys/net/core/rmem_max")
		if lerr != nil {
			t.Skip(lerr)
		}
		var most int
		if _, err := fmt.Sscan(string(limit), &most); err != nil {
			t.Fatal(err)
		}
		if err != nil || receive != min(want, most) || send <= 0 || send > want {
			t.Errorf("of %d bytes the kernel grants %d and %d, %v; rmem_max is %d", want, receive, send, err, most)
		}
	}
}

func TestALimitOfLockedMemoryIsFoundIfTheNICIsToUseXDP(t *testing.T) {
	h := newBed(t, map[string]string{
		"proc/self/status": unprivileged, "proc/self/limits": "Max locked memory         65536                65536                bytes",
	}, "prlimit")
	p := &Patient{Host: h}
	gone(t, lookMemlock, p) // UDP locks nothing
	p.Setup.Link = "xdp"
	f := one(t, lookMemlock, p, "is 65536 bytes", fmt.Sprint("locks ", p.xdpBytes()))
	h.run(t, f)
	gone(t, lookMemlock, p)
	h.write(t, "proc/self/limits", "Max locked memory  unlimited  unlimited  bytes\n", 0o600)
	gone(t, lookMemlock, p)
	p.Setup.Service = "weft-nic.service"
	p.NIC = &NIC{Info: ctl.Info{PID: 7, Link: "udp"}}
	if mend, _ := p.raiseMemlock(9); !strings.Contains(mend, `printf '[Service]\nLimitMEMLOCK=9\n' | sudo tee `+
		"/etc/systemd/system/weft-nic.service.d/memlock.conf") || !strings.HasSuffix(mend, "systemctl restart weft-nic.service") {
		t.Errorf("the limit of a service is raised by %s", mend)
	}
	p.Setup.OfUser = true
	if mend, cure := p.raiseMemlock(9); mend != "" || !strings.Contains(cure, "user@.service to 9 bytes") {
		t.Errorf("the limit of a user's service is raised by %q, %q; expected only a note", mend, cure)
	}
	p.NIC.Info.Link = "xdp"
	gone(t, lookMemlock, p) // it works
}

func TestASlowClockIsFoundByTheStartOfOthersAndTheCommandSetsIt(t *testing.T) {
	node := ctl.Node{ID: 7, Address: "10.0.0.2:7700", Incarnation: uint64(time.Now().UnixNano())}
	for _, tool := range []string{"chronyc", "timedatectl"} {
		h := newBed(t, map[string]string{"clock": "3"}, tool)
		p := &Patient{Host: h, NIC: &NIC{Nodes: []ctl.Node{{ID: 5}, node}}}
		f := one(t, lookClock, p, "NIC 0:0:0:0:0:0:0:7 at 10.0.0.2:7700", "3h0m0s in the future")
		if !strings.Contains(f.Mend, tool) {
			t.Errorf("on a host with %s, the command is %s", tool, f.Mend)
		}
		h.run(t, f)
		gone(t, lookClock, p)
	}
	h := newBed(t, map[string]string{"clock": "3"}, "chronyc")
	p := &Patient{Host: h, NIC: &NIC{Info: ctl.Info{Started: time.Now().UnixNano()}}}
	one(t, lookClock, p, "the start of the daemon of this host")
	if f, _ := (&Patient{Host: newBed(t, nil)}).setClock(); f != "" {
		t.Errorf("a host without a time service has the command %s", f)
	}
}

// certificate writes a certificate that is valid for an hour from a time on.
func certificate(t *testing.T, from time.Time) string {
	t.Helper()
	_, ca, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := trust.NewPrivateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &trust.Certificate{Serial: 1, NIC: key.Public().ID(), Key: key.Public(),
		NotBefore: from.Unix(), NotAfter: from.Add(time.Hour).Unix()}
	if err := c.Sign(ca); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nic.cert")
	if err := os.WriteFile(file, []byte(c.Text()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestACertificateThatIsNotValidNowIsFound(t *testing.T) {
	h := newBed(t, map[string]string{"clock": "3"}, "chronyc")
	p := &Patient{Host: h}
	p.Setup.Certificate = certificate(t, time.Now().Add(-time.Minute))
	f := one(t, lookClock, p, p.Setup.Certificate, "is valid from")
	h.run(t, f)
	gone(t, lookClock, p)
	p.Setup.Certificate = certificate(t, time.Now().Add(-2*time.Hour))
	f = one(t, lookClock, p, "has expired")
	if !strings.HasPrefix(f.Mend, "weft fabric ca sign weft") || f.Where == "" {
		t.Errorf("the command for an expired certificate is %q on %q", f.Mend, f.Where)
	}
	p.Setup.Certificate = filepath.Join(t.TempDir(), "none")
	if _, err := lookClock(p); err == nil {
		t.Error("a certificate that cannot be read is no error")
	}
	h.write(t, "clock", "0", 0o600)
	p = &Patient{Host: h, NIC: &NIC{Checks: []ctl.Check{
		{Address: "10.0.0.2:7700", Cause: ctl.CauseCertificate, Text: "its certificate is not yet valid"}}}}
	one(t, lookClock, p, "10.0.0.2:7700: its certificate is not yet valid")
}

func TestThrottlingOfTheDaemonIsFoundInEachGroupAndTheCommandLiftsIt(t *testing.T) {
	for _, c := range []struct{ name, limit, free string }{
		{"outer/cpu.max", "20000 100000", "max 100000"}, {"inner/cpu.cfs_quota_us", "20000", "-1"},
	} {
		dir := filepath.Dir(c.name)
		h := newBed(t, map[string]string{
			c.name: c.limit, dir + "/cpu.stat": "usage_usec 5\nnr_periods 100\nnr_throttled 7\nthrottled_usec 3",
		})
		p := &Patient{Host: &outsideFiles{h}, NIC: &NIC{Info: ctl.Info{PID: os.Getpid()}}}
		f := one(t, lookThrottled, p, "in 7 of 100 periods", filepath.Join(h.root, dir))
		h.run(t, f)
		gone(t, lookThrottled, p)
		h.write(t, c.name, c.limit, 0o600)
		h.write(t, dir+"/cpu.stat", "nr_periods 1000\nnr_throttled 7\n", 0o600)
		gone(t, lookThrottled, p) // so seldom that it does no harm
		h.write(t, c.name, c.free, 0o600)
		h.write(t, dir+"/cpu.stat", "nr_periods 100\nnr_throttled 99\n", 0o600)
		gone(t, lookThrottled, p)
		p.NIC = nil
		gone(t, lookThrottled, p)
	}
	p := &Patient{Host: newBed(t, nil)}
	p.Setup.Service = "weft-nic.service"
	if got := p.lift("/sys/fs/cgroup/system.slice/weft-nic.service/cpu.max", "max"); got != "sudo systemctl set-property weft-nic.service CPUQuota=" {
		t.Errorf("the limit of a service is lifted by %s", got)
	}
}

// The kernel stops a program of a real control group. Its limit lets it use a hundredth of a
// processor.
func TestThrottlingByTheKernelIsFoundAndTheCommandLiftsIt(t *testing.T) {
	h := newLocal(t)
	dirs, err := h.CPUGroups("self")
	if err != nil || len(dirs) == 0 {
		t.Skip("this process is in no group with a CPU controller: ", err)
	}
	dir := filepath.Join(dirs[0], fmt.Sprintf("weft-doctor-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	set := func(file, value string) error {
		return os.WriteFile(filepath.Join(dir, file), []byte(value), 0) // the kernel has made it
	}
	if set("cpu.cfs_quota_us", "1000") != nil && set("cpu.max", "1000 100000") != nil {
		t.Skip("the CPU controller of this group is not for its children")
	}
	burner := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	if err := burner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = burner.Process.Kill(); _ = burner.Wait() })
	if err := set("cgroup.procs", fmt.Sprint(burner.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	p := &Patient{Host: h, NIC: &NIC{Info: ctl.Info{PID: burner.Process.Pid}}}
	// a group around it may have a limit of its own
	look := func(p *Patient) ([]Finding, error) {
		found, err := lookThrottled(p)
		return slices.DeleteFunc(found, func(f Finding) bool { return !strings.Contains(f.What, dir) }), err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		found, err := look(p)
		if len(found) == 1 || err != nil || time.Now().After(end) {
			break
		}
	}
	f := one(t, look, p, "1000")
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", f.Mend).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", f.Mend, err, out)
	}
	gone(t, look, p)
	if err := burner.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = burner.Wait() // killed; the group is empty now
}

// outsideFiles reads files by their real paths, because the directories of control groups are not
// below the root of a bedHost.
type outsideFiles struct{ *bedHost }

func (h *outsideFiles) Read(path string) ([]byte, error) { return os.ReadFile(path) }

func TestAUserfaultfdThatIgnoresSystemCallsIsFoundAndTheCommandGivesAWholeOne(t *testing.T) {
	h := newBed(t, map[string]string{"proc/sys/vm/unprivileged_userfaultfd": "0"}, "sysctl")
	p := &Patient{Host: h}
	h.run(t, one(t, lookUserfault, p, "ignores the accesses of system calls"))
	gone(t, lookUserfault, p)
}

// refusedFaults is a host on which a filter forbids the call.
type refusedFaults struct{ *bedHost }

func (*refusedFaults) Userfault() (bool, error) { return false, os.ErrPermission }

func TestAUserfaultfdThatAFilterForbidsIsToldWithTheCureInWords(t *testing.T) {
	h := newBed(t, map[string]string{"proc/sys/vm/unprivileged_userfaultfd": "1"})
	found, err := lookUserfault(&Patient{Host: &refusedFaults{h}})
	if err != nil || len(found) != 1 || found[0].Mend != "" || !strings.Contains(found[0].Note, "seccomp") {
		t.Errorf("found %+v, %v; expected a filter", found, err)
	}
}

func TestADaemonOfAnotherBuildIsFoundAndTheCommandRestartsIt(t *testing.T) {
	h := newBed(t, map[string]string{"daemon": "old"}, "systemctl")
	// patient asks the daemon, which tells the build that it was started from.
	patient := func() *Patient {
		commit, err := h.Read("daemon")
		if err != nil {
			t.Fatal(err)
		}
		p := &Patient{Host: h, Version: "0.1.0", Commit: "new"}
		p.NIC = &NIC{Info: ctl.Info{PID: 7, Version: "0.1.0", Commit: strings.TrimSpace(string(commit))}}
		p.Setup.Service = "weft-nic.service"
		return p
	}
	f := one(t, lookVersion, patient(), "process 7", "commit old", "commit new")
	if !strings.Contains(f.Note, "ErrNICGone") {
		t.Errorf("the note does not tell what a restart costs: %s", f.Note)
	}
	h.run(t, f)
	gone(t, lookVersion, patient())
	p := patient()
	p.Commit = unknownCommit
	gone(t, lookVersion, p) // it may be the same build
	p.Version = "0.2.0"
	one(t, lookVersion, p, "weft 0.1.0", "weft 0.2.0")
}

func TestACommandSurvivesTheShell(t *testing.T) {
	p := &Patient{Host: newBed(t, nil), NIC: &NIC{}}
	p.Setup = Setup{Socket: "/a b/nic.sock", StateDir: "/s", Directory: "/it's", Args: []string{"nic", "--node", "x;y"}}
	want := `weft nic stop --socket '/a b/nic.sock' && rm k && (cd '/it'\''s' && exec nohup setsid weft nic --node 'x;y' >>/s/nic.log 2>&1 </dev/null &)`
	if got := p.restart("rm k"); got != want {
		t.Errorf("restart:\n%s\nexpected\n%s", got, want)
	}
	p.Setup.Env = []string{"WEFT_SOCKET=/c d", "WEFT_GSO=true"}
	if got := p.restart(""); !strings.Contains(got, " setsid env 'WEFT_SOCKET=/c d' WEFT_GSO=true weft nic ") {
		t.Errorf("a restart without the daemon's environment: %s", got)
	}
	if got := p.withoutGSO(netip.Addr{}).Mend; strings.Contains(got, "WEFT_GSO=true") {
		t.Errorf("a restart without segmentation offload has it: %s", got)
	}
	p.Setup.Service, p.Setup.OfUser = "a.service", true
	if got, want := p.restart("rm k"), "systemctl --user stop a.service && rm k && systemctl --user start a.service"; got != want {
		t.Errorf("restart of a unit: %s; expected %s", got, want)
	}
}
