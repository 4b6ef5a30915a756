package doctor

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/ctl"
)

// scripted is a host that answers from maps, and whose network answers with errors.
type scripted struct {
	Host
	files   map[string]string
	targets map[string]string
	bind    error
	xdp     error
	ruleset string
	probed  int
}

func (h *scripted) Root() bool { return true }

func (h *scripted) Read(path string) ([]byte, error) {
	if text, ok := h.files[path]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (h *scripted) Target(path string) (string, error) { return h.targets[path], nil }

// List lists the directories above the links.
func (h *scripted) List(dir string) (all []string, err error) {
	for link := range h.targets {
		if rest, ok := strings.CutPrefix(link, dir+"/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			all = append(all, name)
		}
	}
	return all, nil
}

func (h *scripted) Bind(netip.AddrPort) error        { return h.bind }
func (h *scripted) XDP(netip.Addr, bool) error       { return h.xdp }
func (h *scripted) Has(string) bool                  { return h.ruleset != "" }
func (h *scripted) Output(...string) ([]byte, error) { return []byte(h.ruleset), nil }

func (h *scripted) Probe(netip.AddrPort) error {
	h.probed++
	return nil
}

func (h *scripted) Route(to netip.Addr) (string, netip.Addr, error) {
	return "eth0", netip.MustParseAddr("10.0.0.1"), nil
}

// A daemon of another build may have an AF_XDP link, and does not say so.
func TestTheXDPProgramOfADaemonOfAnotherBuildStays(t *testing.T) {
	h := &scripted{xdp: fmt.Errorf("attach: %w", syscall.EBUSY), files: map[string]string{
		"/proc/7/status": unprivileged, "/proc/7/limits": "Max locked memory  65536  65536  bytes"}}
	p := &Patient{Host: h, NIC: &NIC{Info: ctl.Info{PID: 7}}}
	p.Setup = Setup{Link: "xdp", Listen: netip.MustParseAddrPort("10.0.0.1:7700")}
	gone(t, lookXDP, p)
	gone(t, lookMemlock, p)
	p.NIC.Info.Link = "udp"
	one(t, lookXDP, p, "AF_XDP does not work")
}

func TestAnInterfaceKeepsTheMTUThatIPv6Needs(t *testing.T) {
	node := ctl.Node{ID: 2, Address: "10.0.0.2:7700", State: "up", Frame: 1240, WholeFrame: 1472}
	look := func(narrow int) ([]Finding, error) {
		n := node
		n.Narrow = narrow
		return lookMTU(&Patient{Host: &scripted{}, NIC: &NIC{Checks: []ctl.Check{{ID: 2, Address: n.Address}}, Nodes: []ctl.Node{n}}})
	}
	if found, err := look(0); err != nil || len(found) > 0 {
		t.Errorf("found %+v, %v while the NIC searches", found, err)
	}
	for narrow, mend := range map[int]string{
		1240: "", 1251: "", 1252: "ip link set dev eth0 mtu 1280", 1400: "ip link set dev eth0 mtu 1428",
	} {
		found, err := look(narrow)
		if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].Mend, mend) || (mend == "") != (found[0].Mend == "") || found[0].Note == "" {
			t.Errorf("for frames of %d bytes found %+v, %v; expected the command %q", narrow, found, err, mend)
		}
	}
}

// If this NIC shares its key with another one, the host that differs takes over the key.
func TestAKeyThatWorksIsNotReplaced(t *testing.T) {
	check := ctl.Check{ID: 2, Address: "10.0.0.2:7700", Cause: ctl.CauseFabricKey}
	p := &Patient{Host: &scripted{}, NIC: &NIC{Info: ctl.Info{Guard: ctl.GuardSealed}, Checks: []ctl.Check{check},
		Nodes: []ctl.Node{{ID: 2, Address: "10.0.0.2:7700", State: "down"}, {ID: 3, State: "up", Guard: ctl.GuardSealed}}}}
	p.Setup = Setup{Listen: netip.MustParseAddrPort("[::]:7700"), KeyPath: "/k/fabric key", Args: []string{"nic"}}
	if f := one(t, lookKey, p, "another fabric key"); f.Where != "10.0.0.2" || f.Mend != "ssh 10.0.0.1 weft fabric show | weft fabric join --replace" {
		t.Errorf("the command is %q on %q; expected one for the other host", f.Mend, f.Where)
	}
	p.NIC.Nodes[1].State = "down"
	want := `cp -p '/k/fabric key' '/k/fabric key'."$(date +%s)" && ssh 10.0.0.2 weft fabric show | weft fabric join --replace && weft nic stop`
	if f := one(t, lookKey, p); f.Where != "" || !strings.HasPrefix(f.Mend, want) {
		t.Errorf("the command is %q on %q; expected %q on this host", f.Mend, f.Where, want)
	}
	p.Setup.Foreign = true
	if found, err := lookKey(p); err != nil || len(found) != 1 || found[0].Mend != "" || found[0].Note == "" {
		t.Errorf("for another user's daemon found %+v, %v; expected no command", found, err)
	}
}

// A daemon that another user starts has another state directory, and so another identity.
func TestTheDaemonOfAnotherUserIsNotRestarted(t *testing.T) {
	p := &Patient{Host: &scripted{}, Version: "2", NIC: &NIC{
		Info:   ctl.Info{PID: 7, Link: "udp", Version: "1"},
		Checks: []ctl.Check{{ID: 2, Address: "10.0.0.2:7700", Cause: ctl.CauseOwnID}},
	}}
	p.Setup = Setup{Foreign: true, StateDir: "/var/lib/weft", Args: []string{"nic"}}
	for name, look := range map[string]func(*Patient) ([]Finding, error){"version": lookVersion, "id": lookID} {
		found, err := look(p)
		if err != nil || len(found) != 1 || found[0].Mend != "" || !strings.Contains(found[0].Note, "another user") {
			t.Errorf("%s: found %+v, %v; expected a note in place of the command", name, found, err)
		}
	}
	if mend := p.withoutGSO(netip.Addr{}).Mend; mend != "" {
		t.Errorf("without segmentation offload it is started by %q", mend)
	}
	if mend, _ := p.raiseMemlock(9); mend != "" {
		t.Errorf("with a higher limit it is started by %q", mend)
	}
	p.Setup.Service = "weft-nic.service"
	one(t, lookVersion, p)
	p.Setup.OfUser = true
	if mend := p.restart(""); mend != "" {
		t.Errorf("a unit of another user's systemd is restarted by %q", mend)
	}
}

// inKernel writes an address as /proc/net has it.
func inKernel(at netip.AddrPort) string {
	var text strings.Builder
	for w := at.Addr().AsSlice(); len(w) > 0; w = w[4:] {
		fmt.Fprintf(&text, "%08X", binary.NativeEndian.Uint32(w))
	}
	return fmt.Sprintf("%s:%04X", text.String(), at.Port())
}

func TestOnlyAProgramThatKeepsTheNICFromItsAddressIsEnded(t *testing.T) {
	sockets := []string{
		"10.0.0.1:7700", "10.0.0.2:7700", "127.0.0.2:7700", "0.0.0.0:7700", "10.0.0.1:7701", "[fd00::1]:7700", "[::]:7700",
	}
	for _, c := range []struct {
		listen string
		ended  string // the processes, which have the numbers of the sockets
	}{
		{"10.0.0.1:7700", "100 103 106"}, {"10.0.0.2:7700", "101 103 106"}, {"0.0.0.0:7700", "100 101 102 103 106"},
		{"[fd00::1]:7700", "105 106"}, {"[::]:7700", "100 101 102 103 105 106"},
	} {
		h := &scripted{bind: syscall.EADDRINUSE, files: map[string]string{}, targets: map[string]string{}}
		for i, s := range sockets {
			at := netip.MustParseAddrPort(s)
			file := "/proc/thread-self/net/udp"
			if at.Addr().Is6() {
				file += "6"
			}
			h.files[file] += fmt.Sprintf("%d: %s 0:0 07 0:0 00:0 0 0 0 %d 2 0 0\n", i, inKernel(at), 900+i)
			h.targets[fmt.Sprintf("/proc/%d/fd/3", 100+i)] = fmt.Sprintf("socket:[%d]", 900+i)
		}
		p := &Patient{Host: h, Setup: Setup{Listen: netip.MustParseAddrPort(c.listen)}}
		if f := one(t, lookPort, p); f.Mend != "kill "+c.ended {
			t.Errorf("for a NIC at %s the command is %q; expected kill %s", c.listen, f.Mend, c.ended)
		}
	}
	h := &scripted{bind: syscall.EADDRINUSE, targets: map[string]string{"/proc/1/fd/3": "socket:[9]"}, files: map[string]string{
		"/proc/thread-self/net/udp": "0: " + inKernel(netip.MustParseAddrPort("0.0.0.0:7700")) + " 0:0 07 0:0 00:0 0 0 0 9 2"}}
	found, err := lookPort(&Patient{Host: h, Setup: Setup{Listen: netip.MustParseAddrPort("10.0.0.1:7700")}})
	if err != nil || len(found) != 1 || found[0].Mend != "" || !strings.Contains(found[0].Note, "list-sockets") {
		t.Errorf("for a socket of process 1 found %+v, %v; expected a note", found, err)
	}
}

func TestAPeerIsLookedAtAtEachOfItsAddresses(t *testing.T) {
	p := &Patient{NIC: &NIC{Checks: []ctl.Check{{Address: "10.0.0.2:7700"}, {Address: "10.0.0.3:7700"}}}}
	p.Peers = []netip.Addr{netip.MustParseAddr("fd00::2"), netip.MustParseAddr("10.0.0.2")}
	if got := p.checks(); len(got) != 1 || got[0].Address != "10.0.0.2:7700" {
		t.Errorf("the checks of the host are %+v; expected that at its second address", got)
	}
}

// silentNIC returns the answers of a daemon whose n peers are silent.
func silentNIC(n int) *NIC {
	s := &NIC{Info: ctl.Info{Link: "udp"}}
	for i := range n {
		at := fmt.Sprintf("10.0.1.%d:7700", i)
		s.Checks = append(s.Checks, ctl.Check{Address: at})
		s.Nodes = append(s.Nodes, ctl.Node{Address: at, State: "down"})
	}
	return s
}

func TestThePacketFilterIsNotBlamedForFramesOfXDP(t *testing.T) {
	h := &scripted{ruleset: `{"nftables":[{"chain":{"family":"inet","table":"f","name":"in","hook":"input","policy":"drop"}}]}`}
	p := &Patient{Host: h, NIC: silentNIC(1)}
	one(t, lookFilter, p, "the packet filter of this host drops")
	p.NIC.Info.Link = "xdp-generic"
	one(t, lookFilter, p, "none arrives")
}

func TestOnlyAFewOfManySilentNICsAreProbed(t *testing.T) {
	h := &scripted{}
	found, err := lookFilter(&Patient{Host: h, NIC: silentNIC(100)})
	if err != nil || h.probed != mostProbed || len(found) != mostProbed+1 {
		t.Fatalf("%d probes and %d findings, %v; expected %d probes", h.probed, len(found), err, mostProbed)
	}
	last := found[mostProbed]
	if !strings.HasPrefix(last.What, "92 more NICs do not answer: 10.0.1.8:7700, ") || !strings.HasSuffix(last.What, "and 76 more") {
		t.Errorf("the others are told as %q", last.What)
	}
}

// The daemon tells its process as it sees it, which another PID namespace numbers otherwise.
func TestTheDaemonsProcessIsThatOfTheKernel(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nic.sock")
	l, err := ctl.Listen(socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fd, err := unix.MemfdCreate("counters", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, 4096)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for {
			r, err := c.Receive()
			if err != nil {
				return
			}
			if r.Op == ctl.OpStat {
				err = c.Reply(&ctl.Reply{Info: &ctl.Info{PID: syscall.Getpid() + 1}}, fd)
			} else {
				err = c.Reply(&ctl.Reply{})
			}
			if err != nil {
				return
			}
		}
	}()
	conn, err := ctl.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n, err := Ask(t.Context(), conn)
	if err != nil || n.Info.PID != syscall.Getpid() || !n.Contained {
		t.Errorf("the daemon is %+v, %v; expected process %d in another namespace", n, err, syscall.Getpid())
	}
}
