package daemon_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/testbed"
)

// virtual is a second address of host 1.
var virtual = netip.MustParseAddr("10.99.0.1")

func prefixOf(ip netip.Addr) *net.IPNet {
	return &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}
}

// twoAddresses returns a site of two hosts whose daemons receive at all addresses of their hosts.
// Host 1 has two addresses, and host 0 calls one of them.
func twoAddresses(t *testing.T, plain bool, called func(s *site) netip.Addr) *site {
	t.Helper()
	s := onHosts(t, "udp", testbed.Config{})
	s.on(t, 1, "lo", func(lo netlink.Link) error { return netlink.AddrAdd(lo, &netlink.Addr{IPNet: prefixOf(virtual)}) })
	s.on(t, 0, testbed.Interface, func(eth netlink.Link) error {
		return netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: prefixOf(virtual), Gw: s.bed.Host(1).Addr().AsSlice()})
	})
	for i := range s.c {
		c := &s.c[i]
		c.Listen, c.Plain, c.Nodes = fmt.Sprintf(":%d", daemon.DefaultPort), plain, nil
		c.UnreachableAfter = daemon.Duration(soonUnreachable)
	}
	s.c[0].Nodes = []file.Entry{{Address: netip.AddrPortFrom(called(s), daemon.DefaultPort).String()}}
	return s
}

// on calls f with an interface of a host.
func (s *site) on(t *testing.T, host int, device string, f func(l netlink.Link) error) {
	t.Helper()
	if err := s.bed.Host(host).Do(func() error {
		l, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return f(l)
	}); err != nil {
		t.Fatalf("host %d: %v", host, err)
	}
}

// prefers makes the routes of host 1 choose an address for frames to host 0.
func (s *site) prefers(t *testing.T, src netip.Addr) {
	t.Helper()
	to := s.bed.Host(0).Addr()
	s.on(t, 1, testbed.Interface, func(eth netlink.Link) error {
		err := netlink.RouteReplace(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: prefixOf(to), Src: src.AsSlice(), Scope: netlink.SCOPE_LINK})
		if err != nil {
			return err
		}
		c, err := net.Dial("udp4", netip.AddrPortFrom(to, 9).String())
		if err != nil {
			return err
		}
		defer c.Close()
		if at := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(); at != src {
			return fmt.Errorf("the routes choose %v; expected %v", at, src)
		}
		return nil
	})
}

// exchanges exchanges messages, and makes each host check the other: a session whose frames are
// dropped ends then.
func exchanges(t *testing.T, s *site, then func()) (logs [2]*logWriter) {
	t.Helper()
	for i := range logs {
		logs[i] = s.run(t, i)
	}
	a, b := mustAttach(t, s.c[0], "a/0"), mustAttach(t, s.c[1], "b/0")
	wait(t, a, "b/0")
	wait(t, b, "a/0")
	exchange(t, a, b, 1)
	then()
	exchange(t, a, b, 2)
	exchange(t, b, a, 3)
	for i, c := range s.c {
		for _, k := range checks(t, c) {
			if !k.OK {
				t.Errorf("the check by host %d says %+v", i, k)
			}
		}
	}
	exchange(t, a, b, 4)
	for i, log := range logs {
		if strings.Contains(log.String(), "peer is down") {
			t.Errorf("a session of host %d has ended", i)
		}
	}
	return logs
}

func eachGuard(t *testing.T, try func(t *testing.T, plain bool)) {
	for _, plain := range []bool{true, false} {
		t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) { try(t, plain) })
	}
}

// Causes of such a change are a virtual address, a temporary address of IPv6, or `ip route …
// src`. Every session used to end as silent.
func TestASessionOutlivesAnotherPreferredAddressOfItsHost(t *testing.T) {
	eachGuard(t, func(t *testing.T, plain bool) {
		first := func(s *site) netip.Addr { return s.bed.Host(1).Addr() }
		s := twoAddresses(t, plain, first)
		exchanges(t, s, func() { s.prefers(t, virtual) })
		if n := peerOf(t, s.c[0]); !strings.HasPrefix(n.Address, first(s).String()+":") || n.State != "up" || n.Elsewhere != "" {
			t.Errorf("the peer is %+v; expected it up at %v", n, first(s))
		}
		if c := counters(t, s.c[0]); c["drop_address"]+c["rel_strays"] > 0 {
			t.Errorf("%d frames came from another address and were dropped, %d were taken", c["drop_address"], c["rel_strays"])
		}
	})
}

func TestANICIsReachedAtAVirtualAddressOfItsHost(t *testing.T) {
	eachGuard(t, func(t *testing.T, plain bool) {
		s := twoAddresses(t, plain, func(*site) netip.Addr { return virtual })
		exchanges(t, s, func() {})
		if n := peerOf(t, s.c[0]); !strings.HasPrefix(n.Address, virtual.String()+":") || n.State != "up" {
			t.Errorf("the peer is %+v; expected it up at %v", n, virtual)
		}
	})
}

func TestASealedSessionFollowsAHostThatLosesAnAddressAndTheLogSaysSo(t *testing.T) {
	s := twoAddresses(t, false, func(*site) netip.Addr { return virtual })
	log := exchanges(t, s, func() { s.loses(t) })
	logs(t, log[0], "level=INFO", "peer has moved", "from="+virtual.String()+":", "address="+s.bed.Host(1).Addr().String()+":")
}

func TestThePlainLogTellsFromWhichAddressFramesCome(t *testing.T) {
	s := twoAddresses(t, true, func(*site) netip.Addr { return virtual })
	log := s.run(t, 0)
	s.run(t, 1)
	a, b := mustAttach(t, s.c[0], "a/0"), mustAttach(t, s.c[1], "b/0")
	wait(t, a, "b/0")
	wait(t, b, "a/0")
	exchange(t, a, b, 1)
	s.loses(t)
	// and repeated until the session is given up
	_ = b.Send(t.Context(), a.Name(), 1, []byte("from another address"))
	host := s.bed.Host(1).Addr().String()
	logs(t, log, "level=WARN", "frames of a peer come from another address", "address="+virtual.String()+":", "from="+host+":")
	if n := peerOf(t, s.c[0]); n.Elsewhere == "" {
		t.Errorf("the list of nodes has %+v; expected the other address", n)
	}
}

// loses removes the virtual address from host 1.
func (s *site) loses(t *testing.T) {
	t.Helper()
	s.on(t, 1, "lo", func(lo netlink.Link) error { return netlink.AddrDel(lo, &netlink.Addr{IPNet: prefixOf(virtual)}) })
}
