package program

import (
	"net/netip"
	"slices"
	"strings"
)

// A node is a NIC that has a name.
type node struct {
	nic   uint64           // 0: whichever answers at one of the addresses
	addrs []netip.AddrPort // of its link
}

// NameNode has AT find a NIC by a name, in which case does not matter: the one with the id, or at one of the addresses if
// the id is 0.
func (t *Table) NameNode(name string, nic uint64, addrs ...netip.AddrPort) {
	t.nodes[strings.ToLower(name)] = node{nic, addrs}
}

// ForgetNodes has no NIC have a name.
func (t *Table) ForgetNodes() { clear(t.nodes) }

// nodeNamed finds the id of the NIC with a name. There is none yet of a NIC that has never answered.
func (t *Table) nodeNamed(name string) (nic uint64, ok bool) {
	n, ok := t.nodes[strings.ToLower(name)]
	if !ok || n.nic != 0 {
		return n.nic, ok
	}
	for pr := range t.nic.Peers {
		if slices.Contains(n.addrs, pr.Addr()) {
			return pr.NIC(), pr.NIC() != 0
		}
	}
	return 0, false
}
