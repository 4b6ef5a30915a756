package ctl

import (
	"fmt"
	"strings"
)

// mostKnown bounds the hosts that KnownHosts lists.
const mostKnown = 16

// KnownHosts lists the hosts that a daemon knows, for the error about an unknown one: own first,
// and then the nodes, each by its name or else by the id of its NIC.
func KnownHosts(own string, nodes []Node) string {
	all := []string{own}
	for _, n := range nodes {
		switch {
		case n.ID == 0 && n.Name != "":
			all = append(all, n.Name+" (has never answered)")
		case n.Name != "":
			all = append(all, n.Name)
		case n.ID != 0:
			all = append(all, n.ID.String())
		}
	}
	if more := len(all) - mostKnown; more > 0 {
		all = append(all[:mostKnown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}
