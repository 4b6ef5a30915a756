package daemon

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/testbed"
)

// opened opens the link that a configuration asks for, on a host or on this one. It returns the
// link's name and what the log says about it. Shortly after another link was closed, the kernel
// may not have taken back its queue yet.
func opened(t *testing.T, h *testbed.Host, c Config, at netip.AddrPort) (name, why string) {
	t.Helper()
	c.Listen = at.String()
	s, err := c.check()
	if err != nil {
		t.Fatal(err)
	}
	var l carried
	open := func() (err error) {
		l, err = (&Daemon{settings: s}).openLink()
		return err
	}
	do := open
	if h != nil {
		do = func() error { return h.Do(open) }
	}
	for end := time.Now().Add(time.Minute); ; {
		err = do()
		busy := errors.Is(err, unix.EBUSY) || err == nil && strings.Contains(l.choice, unix.EBUSY.Error())
		if !busy || time.Now().After(end) {
			break
		}
		if err == nil {
			l.Close()
		}
	}
	if errors.Is(err, xdp.ErrUnavailable) && !errors.Is(err, unix.EBUSY) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("link %q, prefer %q: %v", c.Link, c.Prefer, err)
	}
	defer l.Close()
	return l.name, strings.Join(l.why(), "; ")
}

// "The log says what was tried, chosen and why" (decision 12).
func TestTheChoiceOfALinkIsExplained(t *testing.T) {
	loopback := netip.MustParseAddrPort("127.0.0.1:0")
	for _, test := range []struct {
		config Config
		want   string
	}{
		{Config{}, "MTU "},
		{Config{Link: "auto"}, "auto: UDP rather than AF_XDP, which costs the bandwidth"},
		{Config{Link: "auto", Prefer: preferLatency}, "auto: UDP, though latency is preferred, because of AF_XDP unavailable: "},
	} {
		if name, why := opened(t, nil, test.config, loopback); name != "udp" || !strings.Contains(why, test.want) {
			t.Errorf("link %q, prefer %q: %s, %s; want udp, %q", test.config.Link, test.config.Prefer, name, why, test.want)
		}
	}
}

// The kill switch is in the configuration or, if that says nothing, in the environment. It
// applies to all sockets.
func TestSegmentationOffloadIsSwitchedOffOnEachLink(t *testing.T) {
	const is = "no segmentation offload, as configured"
	for _, link := range []string{"udp", "xdp"} {
		t.Run(link, func(t *testing.T) {
			at, host := netip.MustParseAddr("127.0.0.1"), (*testbed.Host)(nil)
			if link == "xdp" {
				host = twoHosts(t).Host(0)
				at = host.Addr()
			}
			for _, test := range []struct {
				file, environment string
				off               bool
			}{
				{"", "", false}, {"", "true", false}, {"", "false", true}, {"", "0", true},
				{"gso = false", "", true}, {"gso = true", "false", false}, {"gso = false", "maybe", true},
			} {
				t.Setenv("WEFT_GSO", test.environment)
				c, err := Parse([]byte(test.file))
				if err != nil {
					t.Fatal(err)
				}
				c.Link = link
				if _, why := opened(t, host, c, netip.AddrPortFrom(at, 0)); strings.Contains(why, is) != test.off {
					t.Errorf("%q, WEFT_GSO=%s: %q; expected that it says %q: %v", test.file, test.environment, why, is, test.off)
				}
			}
		})
	}
	t.Setenv("WEFT_GSO", "maybe")
	if err := (Config{}).Check(); err == nil || err.Error() != `gso: $WEFT_GSO is "maybe"; expected true or false` {
		t.Errorf("WEFT_GSO=maybe: %v", err)
	}
}

// AF_XDP needs one address. If listen is every address, the only one of the host is enough; if
// there are several, the log names them.
func TestWhoPrefersLatencyAndListensEverywhereGetsAFXDPAtTheOnlyAddress(t *testing.T) {
	host := twoHosts(t).Host(0)
	try := func(listen, name string, says ...string) {
		t.Helper()
		got, why := opened(t, host, Config{Link: "auto", Prefer: preferLatency}, netip.MustParseAddrPort(listen))
		if strings.Contains(why, "AF_XDP unavailable") && !strings.Contains(why, "the address is ") {
			t.Skip(why)
		}
		for _, s := range says {
			if got != name || !strings.Contains(why, s) {
				t.Errorf("listen = %q: %s, %s; want %s, %q", listen, got, why, name, s)
			}
		}
	}
	four, six := host.Addr().String()+" (eth0)", host.Addr6().String()+" (eth0)"
	only := "not at every address: AF_XDP needs one, and this host has no other"
	try("0.0.0.0:0", "xdp", "auto: AF_XDP, as latency is preferred, at "+four+" and "+only)
	if host.Addr6().IsValid() {
		try("[::]:0", "udp", "the address is ::, which is every one; expected that of a network interface: "+four+", "+six+"; name it by listen")
	}
	address := func(do func(netlink.Link, *netlink.Addr) error, a string) {
		t.Helper()
		if err := host.Do(func() error {
			l, err := netlink.LinkByName(testbed.Interface)
			if err != nil {
				return err
			}
			p := netip.MustParsePrefix(a)
			return do(l, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if host.Addr6().IsValid() {
		address(netlink.AddrDel, host.Addr6().String()+"/64")
	}
	// the interface's address that is valid on its cable only does not count
	try("[::]:0", "xdp", "at "+four+" and "+only)
	address(netlink.AddrAdd, "10.99.0.1/24")
	try("0.0.0.0:0", "udp", "the address is 0.0.0.0, which is every one", four, "10.99.0.1 (eth0)", "; name it by listen")
	address(netlink.AddrDel, "10.99.0.1/24")
	address(netlink.AddrDel, host.Addr().String()+"/16")
	try("[::]:0", "udp", "the address is ::; expected one of a network interface, and none is up that has one")
}

// twoHosts returns a testbed of two hosts, or skips the test.
func twoHosts(t *testing.T) *testbed.Testbed {
	t.Helper()
	bed, err := testbed.New(testbed.Config{Hosts: 2})
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.Close() })
	return bed
}

func TestWhoPrefersLatencyGetsAFXDPWhereItCanBeHad(t *testing.T) {
	bed := twoHosts(t)
	for _, test := range []struct {
		config     Config
		want, says string
	}{
		{Config{Link: "auto", Prefer: preferBandwidth}, "udp", "auto: UDP"},
		// a veth has no zero-copy, and the log says so
		{Config{Link: "auto", Prefer: preferLatency}, "xdp", "native, copying (zero-copy: "},
		{Config{Link: "xdp-generic"}, "xdp-generic", "generic, copying"},
	} {
		name, why := opened(t, bed.Host(0), test.config, netip.AddrPortFrom(bed.Host(0).Addr(), 0))
		if strings.Contains(why, "AF_XDP unavailable") {
			t.Skip("this system has none:", why)
		}
		if name != test.want || !strings.Contains(why, test.says) {
			t.Errorf("link %q, prefer %q: %s (%s); want %s, %q", test.config.Link, test.config.Prefer, name, why, test.want, test.says)
		}
	}
}

// A list that all hosts share has such an address with a zone.
func TestANICKnowsItsOwnLinkLocalAddress(t *testing.T) {
	own := ownAddrs(netip.MustParseAddrPort("[::]:7700"))
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	looked := false
	for _, i := range interfaces {
		all, _ := i.Addrs()
		for _, a := range all {
			ip := netip.MustParsePrefix(a.String()).Addr()
			if !ip.Is6() || !ip.IsLinkLocalUnicast() {
				continue
			}
			looked = true
			for _, zone := range []string{i.Name, strconv.Itoa(i.Index)} {
				if at := netip.AddrPortFrom(ip.WithZone(zone), 7700); !own[at] {
					t.Errorf("%v is not among its own: %v", at, own)
				}
			}
		}
	}
	if !looked {
		t.Skip("no interface has a link-local address of IPv6")
	}
}
