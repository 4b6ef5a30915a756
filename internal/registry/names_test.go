package registry

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/limits"
)

// knows returns a resolver that knows one host.
func knows(host string, all ...string) lookUp {
	return func(_ context.Context, network, asked string) (found []netip.Addr, err error) {
		if network != "ip" || asked != host {
			return nil, errors.New("no such host")
		}
		for _, a := range all {
			found = append(found, netip.MustParseAddr(a))
		}
		return found, nil
	}
}

func TestTheAddressesOfANameAreTriedByTurnsOfTheFamilies(t *testing.T) {
	for _, test := range []struct{ has, want string }{
		{"10.0.0.1", "10.0.0.1"},
		{"2001:db8::1", "2001:db8::1"},
		{"2001:db8::1 10.0.0.1", "10.0.0.1 2001:db8::1"},
		{"2001:db8::1 2001:db8::2 10.0.0.1 10.0.0.2 10.0.0.3", "10.0.0.1 2001:db8::1 10.0.0.2 2001:db8::2 10.0.0.3"},
		{"::ffff:10.0.0.1 10.0.0.1 2001:db8::1 2001:db8::1", "10.0.0.1 2001:db8::1"},
	} {
		all, err := resolve("host:7", 7700, knows("host", strings.Fields(test.has)...))
		var got []string
		for _, a := range all {
			got = append(got, a.Addr().String())
			if a.Port() != 7 {
				t.Errorf("%v has another port than the name", a)
			}
		}
		if strings.Join(got, " ") != test.want || err != nil {
			t.Errorf("%s: %v, %v; expected %s", test.has, got, err, test.want)
		}
	}
}

func TestANameHasABoundedNumberOfAddresses(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("10.0.0.%d", i), fmt.Sprintf("2001:db8::%d", i))
	}
	if all, err := resolve("host", 7700, knows("host", many...)); len(all) != limits.NodeAddresses || err != nil {
		t.Errorf("%d addresses, %v; expected %d", len(all), err, limits.NodeAddresses)
	}
	if all, err := resolve("host", 7700, knows("host")); err == nil || !strings.Contains(err.Error(), "it has no address") {
		t.Errorf("a host without addresses: %v, %v", all, err)
	}
}

func TestANodeTellsAllItsAddresses(t *testing.T) {
	n := Node{Addr: netip.MustParseAddrPort("10.0.0.1:1")}
	n.Others[0] = netip.MustParseAddrPort("[2001:db8::1]:1")
	if got, want := n.String(), "10.0.0.1:1 or [2001:db8::1]:1"; got != want || len(n.Addrs()) != 2 {
		t.Errorf("%s, %v; expected %s", got, n.Addrs(), want)
	}
	heard := Node{ID: 5, Addr: n.Others[0]}
	first, err := NewStatic([]Node{n})
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewStatic([]Node{heard})
	if err != nil {
		t.Fatal(err)
	}
	if all := Merge(first, second).Nodes(); len(all) != 1 {
		t.Errorf("a NIC that is heard of at another address of a listed one: %v; expected one node", all)
	}
}
