package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/testenv"
)

// asHolder makes the test binary a program that has a UDP port, until it is killed.
const asHolder = "WEFT_TEST_HOLDS_PORT"

func TestMain(m *testing.M) {
	if at := os.Getenv(asHolder); at != "" {
		c, err := net.ListenPacket("udp", at)
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		buf := make([]byte, 1)
		for {
			if _, _, err := c.ReadFrom(buf); err != nil {
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}

func TestAProgramThatHasThePortIsFoundAndTheCommandEndsIt(t *testing.T) {
	at := netip.MustParseAddrPort(testenv.Loopback(t))
	h, err := NewHost()
	if err != nil {
		t.Fatal(err)
	}
	p := &Patient{Host: h, Setup: Setup{Listen: at}}
	gone(t, lookPort, p)
	holder := exec.CommandContext(t.Context(), "/proc/self/exe")
	holder.Env = append(os.Environ(), asHolder+"="+at.String())
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(holder.Process.Pid)
	f := one(t, lookPort, p, "UDP port "+strconv.Itoa(int(at.Port())), "process "+pid)
	(&bedHost{h, ""}).run(t, f)
	if err := holder.Wait(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("after %s the program ended with %v", f.Mend, err)
	}
	gone(t, lookPort, p)
	p.NIC = &NIC{}
	gone(t, lookPort, p) // the daemon has it
}

// newHosts makes a testbed, or skips the test.
func newHosts(t *testing.T, c testbed.Config) *testbed.Testbed {
	t.Helper()
	bed, err := testbed.New(c)
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.Close() })
	return bed
}

// shell runs a command on a host.
func shell(t *testing.T, h *testbed.Host, command string) {
	t.Helper()
	if out, err := h.Command(t.Context(), "sh", "-ec", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// onHost is a host of a testbed.
type onHost struct {
	Host
	h *testbed.Host
}

func (o onHost) Output(command ...string) (out []byte, err error) {
	return o.h.Command(context.Background(), command[0], command[1:]...).Output()
}

func TestAFilterThatLetsNoFrameInIsFoundAndTheCommandOpensIt(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip(err)
	}
	for name, rules := range map[string]string{
		"a rule":        "add chain inet f in { type filter hook input priority 0; }; add rule inet f in udp dport { 53, 7000-8000 } drop",
		"a policy":      "add chain inet f in { type filter hook input priority 0; policy drop; }; add rule inet f in tcp dport 22 accept",
		"another chain": "add chain inet f in { type filter hook input priority 0; }; add chain inet f deep; add rule inet f deep ip saddr 10.0.0.0/8 meta l4proto udp reject; add rule inet f in jump deep",
		"the way out":   "add chain inet f out { type filter hook output priority 0; }; add rule inet f out udp dport 7700 counter drop",
	} {
		t.Run(name, func(t *testing.T) {
			bed := newHosts(t, testbed.Config{Hosts: 2})
			here, there := bed.Host(0), bed.Host(1)
			shell(t, here, "nft 'add table inet f; "+rules+"'")
			p := &Patient{Host: onHost{newLocal(t), here}}
			p.Setup.Listen = netip.AddrPortFrom(here.Addr(), 7700)
			at := netip.AddrPortFrom(there.Addr(), 7700)
			wait := 10 * time.Millisecond // for a datagram that is to be lost
			look := func(p *Patient) ([]Finding, error) {
				ok := echoes(t, here, there, p.Setup.Listen, at, wait)
				p.NIC = &NIC{Checks: []ctl.Check{{ID: 2, Address: at.String(), OK: ok}},
					Nodes: []ctl.Node{{ID: 2, Address: at.String(), State: "down"}}}
				return lookFilter(p)
			}
			f := one(t, look, p, "the packet filter of this host drops", "inet f ")
			shell(t, here, f.Mend)
			wait = 200 * time.Millisecond
			gone(t, look, p)
		})
	}
}

func TestTwoOtherNICsWithOneIDAreToldWithTheHostsOfBoth(t *testing.T) {
	p := &Patient{Host: newLocal(t), NIC: &NIC{
		Checks: []ctl.Check{{ID: 5, Address: "10.0.0.3:7700", Cause: ctl.CauseKnownID}},
		Nodes:  []ctl.Node{{ID: 5, Address: "10.0.0.3:7700", State: "down"}, {ID: 5, Address: "10.0.0.4:7700", State: "up"}},
	}}
	if f := one(t, lookID, p, "10.0.0.3:7700 has the id 0:0:0:0:0:0:0:5"); f.Where != "10.0.0.3" || f.Mend != "weft doctor --peer 10.0.0.4" {
		t.Errorf("the command is %q on %q", f.Mend, f.Where)
	}
}

func TestASeedThatDoesNotAnswerIsFound(t *testing.T) {
	p := &Patient{Host: newLocal(t), NIC: &NIC{Checks: []ctl.Check{{Address: "10.0.0.9:7701", Cause: ctl.CauseSeed, Text: "it is silent"}}}}
	if f := one(t, lookFilter, p, "10.0.0.9:7701: it is silent"); f.Where != "10.0.0.9" {
		t.Errorf("the command for a seed is for %q", f.Where)
	}
}

// echoes reports whether one of 20 datagrams returns from the other host. It waits for each.
func echoes(t *testing.T, here, there *testbed.Host, from, to netip.AddrPort, wait time.Duration) (ok bool) {
	t.Helper()
	var far, near *net.UDPConn
	for _, s := range []struct {
		h  *testbed.Host
		at netip.AddrPort
		c  **net.UDPConn
	}{{there, to, &far}, {here, from, &near}} {
		if err := s.h.Do(func() (err error) {
			*s.c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(s.at))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer (*s.c).Close()
	}
	go func() {
		buf := make([]byte, 8)
		for {
			n, back, err := far.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = far.WriteToUDPAddrPort(buf[:n], back)
		}
	}()
	for range 20 { // a busy machine may be slow, but it does not lose all
		_, _ = near.WriteToUDPAddrPort([]byte("frame"), to) // a filter may refuse it
		if err := near.SetReadDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := near.ReadFromUDPAddrPort(make([]byte, 8)); err == nil {
			return true
		}
	}
	return false
}

func newLocal(t *testing.T) Host {
	t.Helper()
	h, err := NewHost()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestANICThatIsDownIsToldFromAHostThatIsSilent(t *testing.T) {
	free := netip.MustParseAddrPort(testenv.Loopback(t))
	p := &Patient{Host: noFilter{newLocal(t)}}
	p.Setup.Listen = netip.MustParseAddrPort("127.0.0.1:7700")
	silent := func(at string) *NIC {
		return &NIC{Checks: []ctl.Check{{Address: at}}, Nodes: []ctl.Node{{Address: at, State: "down"}}}
	}
	p.NIC = silent(free.String())
	f := one(t, lookFilter, p, "no NIC listens there")
	if f.Where != "127.0.0.1" || f.Mend != "weft nic --node 127.0.0.1:7700" {
		t.Errorf("the command for a NIC that is down is %q on %q", f.Mend, f.Where)
	}
	p.Setup.Listen = netip.MustParseAddrPort("[::]:7700")
	if f = one(t, lookFilter, p); f.Mend != "weft nic --node 127.0.0.1:7700" {
		t.Errorf("the command for a NIC that is down, of a NIC at every address, is %q", f.Mend)
	}
	c, err := net.ListenPacket("udp", "127.0.0.1:0") // takes datagrams, and does not answer
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p.NIC = silent(c.LocalAddr().String())
	f = one(t, lookFilter, p, "leave this host, and none arrives")
	if f.Mend != "weft doctor" || f.Where != "127.0.0.1" {
		t.Errorf("the command for a silent host is %q on %q", f.Mend, f.Where)
	}
	p.Peers = []netip.Addr{netip.MustParseAddr("127.0.0.9")}
	p.PeerName = "far"
	p.Setup.Args = []string{"nic"}
	f = one(t, lookFilter, p, "knows no NIC at far")
	if !strings.Contains(f.Mend, "weft nic --node far ") {
		t.Errorf("the command that adds a node is %s", f.Mend)
	}
}

// A rule stands for a network card that loses batches: it sees a batch before it is cut.
func TestSegmentationOffloadThatLosesFramesIsFound(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip(err)
	}
	bed := newHosts(t, testbed.Config{Hosts: 2})
	here, there := bed.Host(0), bed.Host(1)
	at := netip.AddrPortFrom(there.Addr(), 7700).String()
	p := &Patient{Host: newLocal(t), NIC: &NIC{Info: ctl.Info{Link: "udp"}, Checks: []ctl.Check{{Address: at, OK: true}}}}
	p.Setup.Args = []string{"nic"}
	look := func(p *Patient) (found []Finding, err error) {
		err = here.Do(func() (err error) { found, err = lookGSO(p); return err })
		return found, err
	}
	gone(t, look, p)
	// hosts bound the rate of the errors that the check counts
	shell(t, there, "sysctl -qw net.ipv4.icmp_ratelimit=0")
	shell(t, there, "nft 'add table ip f; add chain ip f in { type filter hook prerouting priority 0; }; "+
		"add rule ip f in udp dport 7 meta length > 700 drop'")
	f := one(t, look, p, "segmentation offload for "+there.Addr().String())
	if !strings.HasPrefix(f.Mend, "export WEFT_GSO=false && weft nic stop && (") {
		t.Errorf("the command is %s", f.Mend)
	}
	p.Setup.NoGSO = true
	gone(t, look, p)
	p.Setup.NoGSO = false
	shell(t, there, "nft add rule ip f in udp dport 7 drop")
	gone(t, look, p) // the host does not answer at all
}

// noFilter is a host without the program that lists the packet filter.
type noFilter struct{ Host }

func (noFilter) Has(string) bool { return false }

func TestAProgramThatKeepsXDPAwayIsFoundAndTheCommandRemovesIt(t *testing.T) {
	bed := newHosts(t, testbed.Config{Hosts: 2})
	here := bed.Host(0)
	p := &Patient{Host: newLocal(t), Setup: Setup{Link: "xdp", Listen: netip.AddrPortFrom(here.Addr(), 7700)}}
	look := func(p *Patient) (found []Finding, err error) {
		err = here.Do(func() (err error) { found, err = lookXDP(p); return err })
		return found, err
	}
	if found, err := look(p); err != nil || len(found) > 0 {
		t.Skip("this kernel or user has no AF_XDP: ", found, err)
	}
	other, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Apache-2.0", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R0, 2), asm.Return(), // XDP_PASS
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := here.Do(func() error {
		eth, err := netlink.LinkByName(testbed.Interface)
		if err != nil {
			return err
		}
		return netlink.LinkSetXdpFd(eth, other.FD())
	}); err != nil {
		t.Fatal(err)
	}
	f := one(t, look, p, "the interface has another XDP program")
	shell(t, here, f.Mend)
	gone(t, look, p)
}

func TestXDPNeedsOneAddress(t *testing.T) {
	p := &Patient{Host: newLocal(t), Setup: Setup{Link: "xdp", Listen: netip.MustParseAddrPort("[::]:7700")}}
	if found, err := lookXDP(p); err != nil || len(found) != 1 || !strings.Contains(found[0].Note, "listen") {
		t.Errorf("found %+v, %v; expected that the address is missing", found, err)
	}
}
