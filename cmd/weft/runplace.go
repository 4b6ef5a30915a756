package main

import (
	"fmt"
	"strings"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/launch"
)

// runPlace is a host that may take ranks.
type runPlace struct {
	name  string
	nic   fabric.NICID
	slots int    // that the host offers to this job
	free  int    // of those
	why   string // why the slots are not known
}

// How ranks were placed.
const (
	placedPacked  = "packed"         // each host is filled up to its free slots, then the next one
	placedOver    = "oversubscribed" // packed; ranks without a slot are spread evenly
	placedPerNode = "per-node"       // each host has --per-node ranks, the last perhaps fewer
	placedOneHost = "one-host"       // there was one host
)

// placeRanks gives each host its ranks. It packs: it fills the first host up to its free slots,
// then the next one. With perNode, each host takes that many. With over, it spreads evenly the
// ranks that have no slot. It returns which of these it did.
func placeRanks(places []runPlace, n, perNode int, over bool) (hosts []launch.Host, how string, err error) {
	counts := make([]int, len(places))
	left := n
	for i, p := range places {
		most := max(p.free, 0)
		if perNode > 0 {
			most = perNode
		}
		counts[i] = min(most, left)
		left -= counts[i]
	}
	switch {
	case left > 0 && perNode > 0:
		return nil, "", fmt.Errorf("%s at %d a node need %s; there are %d; lower -n, raise --per-node, or add nodes",
			counted(n, "rank"), perNode, counted((n+perNode-1)/perNode, "node"), len(places))
	case left > 0 && !over:
		return nil, "", lacksSlots(places, n)
	}
	switch {
	case len(places) == 1:
		how = placedOneHost
	case perNode > 0:
		how = placedPerNode
	case left > 0:
		how = placedOver
	default:
		how = placedPacked
	}
	for i := 0; left > 0; i = (i + 1) % len(places) {
		counts[i]++
		left--
	}
	return hostsOf(places, counts), how, nil
}

func hostsOf(places []runPlace, counts []int) (hosts []launch.Host) {
	rank := 0
	for i, p := range places {
		if counts[i] == 0 {
			continue
		}
		h := launch.Host{Name: p.name, NIC: p.nic}
		for range counts[i] {
			h.Ranks = append(h.Ranks, rank)
			rank++
		}
		hosts = append(hosts, h)
	}
	return hosts
}

// lacksSlots returns the refusal of a job for which the hosts have too few slots, with all their
// slots. If a host does not tell its slots, that is the cause, and fewer ranks or a longer wait
// would not help.
func lacksSlots(places []runPlace, n int) error {
	free, untold := 0, 0
	var b strings.Builder
	for _, p := range places {
		free += max(p.free, 0)
		if p.why != "" {
			untold++
			fmt.Fprintf(&b, "\n  host %s: %s", p.name, p.why)
			continue
		}
		fmt.Fprintf(&b, "\n  host %s: %d of %s free", p.name, max(p.free, 0), counted(p.slots, "slot"))
	}
	if untold > 0 {
		do := "do"
		if untold == 1 {
			do = "does"
		}
		return fmt.Errorf("%s of %d %s not report slots, and the others have %d free for %s:%s",
			counted(untold, "host"), len(places), do,
			free, counted(n, "rank"), b.String())
	}
	is, need := "are", "need"
	if free == 1 {
		is = "is"
	}
	if n == 1 {
		need = "needs"
	}
	return fmt.Errorf("%s %s %s; %d %s free:%s\nweft run packs: it fills the hosts in this order. Lower -n, wait for "+
		"other jobs, or add --oversubscribe",
		counted(n, "rank"), need, counted(n, "slot"), free, is, b.String())
}
