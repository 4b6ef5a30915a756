package daemon

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestALinkIsUpIfAnInterfaceWithItsAddressIs(t *testing.T) {
	const up = net.FlagUp | net.FlagRunning
	lo := net.Interface{Name: "lo", Flags: up | net.FlagLoopback}
	for _, c := range []struct {
		name string
		at   string
		all  []net.Interface
		want string // part of the error; empty: up
	}{
		{"loopback", "127.0.0.1", []net.Interface{lo}, ""},
		{"any loopback address", "127.8.9.10", []net.Interface{lo}, ""},
		{"loopback is down", "127.0.0.1", []net.Interface{{Name: "lo", Flags: net.FlagLoopback}}, "interface lo"},
		{"no interface has it", "192.0.2.1", []net.Interface{lo}, "no interface has the address 192.0.2.1"},
		{"every address, loopback alone", "::", []net.Interface{lo}, ""},
		{"every address, one is up", "::", []net.Interface{lo, {Name: "a"}, {Name: "b", Flags: up}}, ""},
		{"every address, the cable is out", "0.0.0.0", []net.Interface{lo, {Name: "a", Flags: net.FlagUp}}, "no interface of the host is up"},
	} {
		u := &uplink{interfaces: func() ([]net.Interface, error) { return c.all, nil },
			addrs: func(*net.Interface) ([]net.Addr, error) { return nil, nil }}
		err := u.up(netip.MustParseAddr(c.at))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
	broken := errors.New("broken")
	u := &uplink{interfaces: func() ([]net.Interface, error) { return nil, broken }}
	if err := u.up(netip.MustParseAddr("::1")); !errors.Is(err, broken) {
		t.Errorf("%v; want the system's error", err)
	}
}

// A question for the addresses of an interface is a dump of all addresses of the host.
func TestTheInterfaceThatHadTheAddressIsAskedFirst(t *testing.T) {
	const up = net.FlagUp | net.FlagRunning
	holder, asked := "b", ""
	u := &uplink{
		interfaces: func() ([]net.Interface, error) {
			return []net.Interface{{Index: 1, Name: "lo", Flags: up | net.FlagLoopback}, {Index: 2, Name: "a", Flags: up}, {Index: 3, Name: "b", Flags: up}}, nil
		},
		addrs: func(i *net.Interface) ([]net.Addr, error) {
			asked += i.Name + " "
			if i.Name == holder {
				return []net.Addr{&net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}}, nil
			}
			return nil, nil
		},
	}
	for _, c := range []struct{ holder, asked string }{{"b", "lo a b "}, {"b", "b "}, {"a", "b a "}, {"a", "a "}} {
		holder, asked = c.holder, ""
		if err := u.up(netip.MustParseAddr("192.0.2.1")); err != nil || asked != c.asked {
			t.Errorf("%s has the address: %v, asked %q; want %q", c.holder, err, asked, c.asked)
		}
	}
}
