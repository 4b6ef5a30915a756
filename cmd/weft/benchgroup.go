package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/bench"
)

// newBenchGroup is weft bench barrier, broadcast or allreduce.
func newBenchGroup(kind, short string) *cobra.Command {
	o := bench.GroupOptions{Kind: kind, Sizes: []int{64}}
	var asJSON bool
	c := &cobra.Command{
		Use:   kind + " [flags]",
		Short: short,
		Long: short + `.

The members are in one program, each with a NIC of its own. What is measured is how long the operation takes at
rank 0. With --json, each size is one object on a line of its own.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out := c.OutOrStdout()
			if !asJSON {
				fmt.Fprintf(out, "# weft bench %s: %d members, link %s, %v for each size\n# %8s %12s %11s %11s %11s\n",
					kind, o.Members, o.Link, o.Time, "bytes", "iterations", "p50 µs", "p99 µs", "p99.9 µs")
			}
			return bench.RunGroup(c.Context(), o, func(r bench.GroupRow) error {
				if asJSON {
					return json.NewEncoder(out).Encode(r)
				}
				_, err := fmt.Fprintf(out, "%10d %12d %11.2f %11.2f %11.2f\n", r.Size, r.Iterations, float64(r.P50)/1e3, float64(r.P99)/1e3, float64(r.P999)/1e3)
				return err
			})
		},
	}
	fs := c.Flags()
	intFlag(fs, &o.Members, "members", 4, 1, 64, "how many members, each on a NIC of its own")
	choiceFlag(fs, &o.Link, "link", bench.LinkUDP, bench.Links(), "what carries the frames")
	durationFlag(fs, &o.Time, "time", 5*time.Second, time.Millisecond, time.Hour, "how long to measure each size")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object for each size")
	if kind == bench.KindBarrier {
		o.Sizes[0] = 0
	}
	fs.Var(&checkedFlag{
		kind: "N|all",
		text: strconv.Itoa(o.Sizes[0]),
		want: fmt.Sprintf("a number of bytes from 0 to %d, such as 64, 4KiB or 1MiB, or all", bench.MaxSize),
		set: func(s string) bool {
			sizes, ok := bench.ParseSizes(s)
			if ok && kind != bench.KindBarrier {
				o.Sizes = sizes
			}
			return ok
		},
	}, "size", "length of the data in bytes, of which a barrier has none; all: 1 B to 4 MiB, in powers of four")
	return c
}
