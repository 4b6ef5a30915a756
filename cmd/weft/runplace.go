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
	slots int // that the host offers to this job
	free  int // of those
	why   string
}

// placeRanks gives each host its ranks. It packs: the first host is filled up to its free slots, then the next one. With
// perNode, each host takes that many. With over, ranks for which there is no slot are spread evenly.
func placeRanks(places []runPlace, n, perNode int, over bool) ([]launch.Host, error) {
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
		return nil, fmt.Errorf("%s at %d a node need %s; there are %d; lower -n, raise --per-node, or add nodes",
			counted(n, "rank"), perNode, counted((n+perNode-1)/perNode, "node"), len(places))
	case left > 0 && !over:
		return nil, lacksSlots(places, n)
	}
	for i := 0; left > 0; i = (i + 1) % len(places) {
		counts[i]++
		left--
	}
	return hostsOf(places, counts), nil
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

// lacksSlots is the refusal of a job for which the hosts have too few slots, with all of them.
func lacksSlots(places []runPlace, n int) error {
	free := 0
	var b strings.Builder
	for _, p := range places {
		free += max(p.free, 0)
		if p.why != "" {
			fmt.Fprintf(&b, "\n  host %s: %s", p.name, p.why)
			continue
		}
		fmt.Fprintf(&b, "\n  host %s: %d of %s free", p.name, max(p.free, 0), counted(p.slots, "slot"))
	}
	is := "are"
	if free == 1 {
		is = "is"
	}
	return fmt.Errorf("%s need %s; %d %s free:%s\nweft run packs: it fills the hosts in this order. Lower -n, wait for other jobs, or add --oversubscribe",
		counted(n, "rank"), counted(n, "slot"), free, is, b.String())
}

// placementText says which ranks a job places where, in one line.
func placementText(hosts []launch.Host) string {
	var parts []string
	for _, h := range hosts {
		first, last := h.Ranks[0], h.Ranks[len(h.Ranks)-1]
		ranks := fmt.Sprintf("ranks %d-%d", first, last)
		if first == last {
			ranks = fmt.Sprintf("rank %d", first)
		}
		parts = append(parts, ranks+" on "+h.Name)
	}
	return strings.Join(parts, ", ")
}
