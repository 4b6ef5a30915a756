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
		err := linkUp(netip.MustParseAddr(c.at), func() ([]net.Interface, error) { return c.all, nil })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
	broken := errors.New("broken")
	if err := linkUp(netip.MustParseAddr("::1"), func() ([]net.Interface, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v; want the system's error", err)
	}
}
