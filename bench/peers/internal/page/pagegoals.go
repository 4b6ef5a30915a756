package page

import (
	"slices"
	"strings"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// pageGoals returns the goals of network memory, for each link.
func pageGoals() (all []goal) {
	pages, blocks, veth := contest.Columns(contest.Pages), contest.Columns(contest.Blocks),
		contest.Columns(contest.Veth)
	for _, link := range []string{"udp", "xdp"} {
		in, device := "Weft, page-in, "+link, "Weft, mem nbd, "+link
		all = append(all,
			goal{"P19", "a page of 4 KiB in, by that of a call, " + link, in, "Weft, call, " + link, pages[0], nil,
				1 / 1.15},
			goal{"P19", "a page of 4 KiB in, " + link, in, "Redis", pages[0], nil, 1 / 0.7},
			goal{"P19", "pages in a second, 32 under way, " + link, in, "Redis", pages[2], nil, 3},
			goal{"P19", "the same, beside 32 under way on one connection, " + link, in, "Redis, pipelined", pages[2],
				nil, 3},
			goal{"P19", "pages in order, by messages of 1 MiB, " + link, in, "Weft, " + link, pages[3], &veth[3], 0.6},
			goal{"P20", "a device's block of 4 KiB, depth 1, " + link, device, "nbdkit", blocks[0], nil, 1},
			goal{"P20", "a device's blocks a second, depth 32, " + link, device, "nbdkit", blocks[2], nil, 2})
	}
	slices.SortStableFunc(all, func(a, b goal) int { return strings.Compare(a.number, b.number) })
	return all
}
