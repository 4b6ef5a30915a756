package program

import (
	"net/netip"
	"slices"
	"strings"
)

// A node is a NIC that has a name.
type node struct {
	nic   uint64           // 0: any NIC that answers at one of the addresses
	addrs []netip.AddrPort // of its link
}

// NameNode gives a NIC a name, by which AT finds it; case does not matter. The NIC is the one
// with the id or, if that is 0, at one of the addresses.
func (t *Table) NameNode(name string, nic uint64, addrs ...netip.AddrPort) {
	t.nodes[strings.ToLower(name)] = node{nic, addrs}
}

// ForgetNodes removes all names of NICs.
func (t *Table) ForgetNodes() { clear(t.nodes) }

// nodeNamed returns the id of the NIC with a name. A NIC that has never answered has no id yet.
func (t *Table) nodeNamed(name string) (nic uint64, ok bool) {
	n := t.nodes[strings.ToLower(name)]
	if n.nic != 0 {
		return n.nic, true
	}
	for pr := range t.nic.Peers {
		if slices.Contains(n.addrs, pr.Addr()) {
			return pr.NIC(), pr.NIC() != 0
		}
	}
	return 0, false
}
