package daemon_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/vni"
)

// The switch carries 1,300 bytes and silently drops longer frames, from the start or later. All
// messages arrive, and the tools report the narrow path.
func TestAPathThatCarriesLessThanItsEndsIsFoundAndCrossed(t *testing.T) {
	for _, link := range []string{"udp", "xdp"} {
		t.Run(link, func(t *testing.T) {
			s := onHosts(t, link, testbed.Config{Lossy: true})
			log := s.run(t, 0)
			s.run(t, 1)
			a, b := mustAttach(t, s.c[0], "a/0"), mustAttach(t, s.c[1], "b/0")
			wait(t, a, "b/0")
			wait(t, b, "a/0")
			exchange(t, a, b, 1)
			if n := peerOf(t, s.c[0]); n.Frame != 1472 || n.WholeFrame != 1472 {
				t.Errorf("on an ordinary path, frames have %d of %d bytes; expected all 1472", n.Frame, n.WholeFrame)
			}
			for _, mtu := range []int{1300, 1000} {
				if err := s.bed.Host(0).SetPathMTU(mtu); err != nil {
					t.Fatal(err)
				}
				exchange(t, a, b, 2)
				exchange(t, b, a, 3)
				var n ctl.Node
				for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					if n = peerOf(t, s.c[0]); n.Frame > mtu-28-24 && n.Frame <= mtu-28+4 {
						break // with the room that the kernel leaves for a VLAN tag
					}
				}
				if n.Frame <= mtu-28-24 || n.Frame > mtu-28+4 {
					t.Errorf("over a switch of %d bytes, frames have %d; expected about %d", mtu, n.Frame, mtu-28)
				}
			}
			const says = "the path to a peer carries less than both ends"
			for end := time.Now().Add(patience); !strings.Contains(log.String(), says) && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
			if !strings.Contains(log.String(), says) {
				t.Errorf("the log does not say that the path is narrow: %s", log)
			}
			n := peerOf(t, s.c[0])
			for end := time.Now().Add(patience); (n.Narrow == 0 || n.Narrow != n.Frame) && time.Now().Before(end); n = peerOf(t, s.c[0]) {
				time.Sleep(10 * time.Millisecond)
			}
			if n.Narrow == 0 || n.Narrow != n.Frame {
				t.Errorf("the tools are told that the path carries %d bytes; expected the %d of its frames", n.Narrow, n.Frame)
			}
			if c := counters(t, s.c[0]); c["rel_path_doubts"] == 0 || c["rel_paths_narrowed"] == 0 || c["rel_parts_sent"] == 0 {
				t.Errorf("%d doubts, %d narrow paths, %d parts sent", c["rel_path_doubts"], c["rel_paths_narrowed"], c["rel_parts_sent"])
			}
		})
	}
}

// peerOf returns the one other NIC that a daemon knows.
func peerOf(t *testing.T, c daemon.Config) ctl.Node {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all, err := conn.NIC(0).Nodes(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("nodes: %+v, %v; expected one", all, err)
	}
	return all[0]
}

// counters returns a daemon's counters, by name.
func counters(t *testing.T, c daemon.Config) map[string]uint64 {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, page, unmap, err := conn.Stat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	p, err := vni.OpenCounterPage(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]uint64{}
	for i, name := range vni.Names() {
		all[name] = p.Load(vni.Counter(i))
	}
	return all
}

// Host 1 is the router between hosts 0 and 2. Host 2 has an address behind a network of 1,300
// bytes. The router reports longer frames, and neither NIC needs to hear that.
func TestAPathBehindARouterThatCarriesLessIsFoundAndCrossed(t *testing.T) {
	for _, link := range []string{"udp", "xdp"} {
		t.Run(link, func(t *testing.T) {
			bed, err := testbed.New(testbed.Config{Hosts: 3})
			if errors.Is(err, testbed.ErrUnavailable) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { bed.Close() })
			far := net.IPNet{IP: net.IPv4(10, 99, 0, 1).To4(), Mask: net.CIDRMask(32, 32)}
			on := func(host int, device string, f func(l netlink.Link) error) {
				t.Helper()
				if err := bed.Host(host).Do(func() error {
					l, err := netlink.LinkByName(device)
					if err != nil {
						return err
					}
					return f(l)
				}); err != nil {
					t.Fatalf("host %d: %v", host, err)
				}
			}
			on(2, "lo", func(lo netlink.Link) error { return netlink.AddrAdd(lo, &netlink.Addr{IPNet: &far}) })
			on(0, testbed.Interface, func(eth netlink.Link) error {
				return netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: &far, Gw: bed.Host(1).Addr().AsSlice()})
			})
			on(1, testbed.Interface, func(eth netlink.Link) error {
				for name, value := range map[string]string{"ip_forward": "1", "conf/all/send_redirects": "0", "conf/eth0/send_redirects": "0"} {
					if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0); err != nil {
						t.Skip("host 1 cannot be made a router:", err)
					}
				}
				return netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: &far, Gw: bed.Host(2).Addr().AsSlice(), MTU: 1300, MTULock: true})
			})
			s := &site{c: configs(t, 3), bed: bed}
			s.c[0].Link, s.c[0].Listen = link, fmt.Sprintf("%v:%d", bed.Host(0).Addr(), daemon.DefaultPort)
			s.c[2].Link, s.c[2].Listen, s.c[2].MTU = "udp", fmt.Sprintf("10.99.0.1:%d", daemon.DefaultPort), 1472
			s.c[0].Nodes = []file.Entry{{Address: s.c[2].Listen}}
			s.c[2].Nodes = []file.Entry{{Address: s.c[0].Listen}}
			s.run(t, 0)
			s.run(t, 2)
			a, b := mustAttach(t, s.c[0], "a/0"), mustAttach(t, s.c[2], "b/0")
			wait(t, a, "b/0")
			wait(t, b, "a/0")
			exchange(t, a, b, 1)
			exchange(t, b, a, 2)
			if n := peerOf(t, s.c[0]); n.Frame > 1272 || n.Frame < limits.SureFrame || n.WholeFrame != 1472 {
				t.Errorf("over a network of 1300 bytes, frames have %d of %d; expected 1232 to 1272 of 1472", n.Frame, n.WholeFrame)
			}
		})
	}
}

// The kernel then refuses frames that are too long or, over AF_XDP, loses them silently.
func TestAnInterfaceMayCarryLessThanWhenTheDaemonStarted(t *testing.T) {
	for _, link := range []string{"udp", "xdp"} {
		t.Run(link, func(t *testing.T) {
			s := onHosts(t, link, testbed.Config{})
			s.run(t, 0)
			s.run(t, 1)
			a, b := mustAttach(t, s.c[0], "a/0"), mustAttach(t, s.c[1], "b/0")
			wait(t, a, "b/0")
			wait(t, b, "a/0")
			exchange(t, a, b, 1)
			for i := range 2 {
				if err := s.bed.Host(i).Do(func() error {
					eth, err := netlink.LinkByName(testbed.Interface)
					if err != nil {
						return err
					}
					return netlink.LinkSetMTU(eth, 1300)
				}); err != nil {
					t.Fatal(err)
				}
			}
			exchange(t, a, b, 2)
			exchange(t, b, a, 3)
			c := counters(t, s.c[0])
			if c["rel_path_doubts"] == 0 {
				t.Error("the NIC does not doubt the path")
			}
			if link == "udp" && c["link_dropped_out"] == 0 {
				t.Error("no frame was refused by the kernel; expected some")
			}
		})
	}
}
