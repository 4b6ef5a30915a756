package program

import (
	"net/netip"
	"testing"

	"github.com/weftnet/weft/pdl/prog"
)

// A name stands for a NIC's id, in any case, until names are forgotten. The name of a NIC that
// has never answered stands for none yet.
func TestNodesHaveNamesUntilTheyAreForgotten(t *testing.T) {
	n := newNIC(t)
	n.NameNode("Host-3", 33, netip.AddrPort{})
	n.NameNode("unheard", 0, netip.AddrPort{})
	for name, want := range map[string]int64{"host-3": 33, "HOST-3": 33, "host-4": 0, "unheard": 0} {
		if nic, ok := n.Lookup(prog.NodeName, name, 0); nic != want || ok != (want != 0) {
			t.Errorf("%s is %d, %v; want %d", name, nic, ok, want)
		}
	}
	n.ForgetNodes()
	if nic, ok := n.Lookup(prog.NodeName, "host-3", 0); ok {
		t.Errorf("host-3 is %d after all names were forgotten", nic)
	}
}
