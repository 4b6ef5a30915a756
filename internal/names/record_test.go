package names

import (
	"net/netip"
	"testing"
)

func TestAddressesAreToldToThoseWhomTheyLeadSomewhere(t *testing.T) {
	for _, c := range []struct {
		a, to string
		ok    bool
	}{
		{"10.0.0.1", "10.0.0.2", true},
		{"127.0.0.1", "10.0.0.2", false},
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.2", "127.0.0.1", true},
		{"10.0.0.1", "127.0.0.1", true},
		{"::1", "fd00::2", false},
		{"fe80::1", "fe80::2", false},
		{"fd00::1", "fe80::2", true},
	} {
		if ok := tellable(netip.MustParseAddr(c.a), netip.MustParseAddr(c.to)); ok != c.ok {
			t.Errorf("%s to one at %s: %v", c.a, c.to, ok)
		}
	}
}
