package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/bench"
)

// newBenchLimits is weft bench limits.
func newBenchLimits() *cobra.Command {
	var o bench.LimitsOptions
	var asJSON bool
	var child string
	c := &cobra.Command{
		Use:   bench.KindLimits + " [flags]",
		Short: "Measure what this machine allows, with bare programs that do nothing else",
		Long: `Measures what this machine allows: for each way that Weft goes, the barest program
that goes the same way. What goes over a network runs on two hosts that are made for
the time of the measurement (needs root; left out without).

All are measured in each round; what is printed is the median of the rounds.

` + limitNames(),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			out := c.OutOrStdout()
			if child != "" {
				return bench.LimitChild(child, c.InOrStdin(), out)
			}
			if err := bench.CheckRounds(o.Time, o.Rounds); err != nil {
				return &exitError{exitUsage, err}
			}
			if o.Self, err = os.Executable(); err != nil {
				return err
			}
			warn(c)
			if !asJSON {
				fmt.Fprintf(out, "# weft bench limits: medians of %d rounds, %v for each size\n# %16s %9s %17s\n", o.Rounds, o.Time, "limit", "bytes", "")
			}
			missing := func(name string, why error) { fmt.Fprintf(c.ErrOrStderr(), "weft: left out: %s: %v\n", name, why) }
			return bench.RunLimits(c.Context(), o, missing, func(r bench.LimitRow) error {
				if asJSON {
					return json.NewEncoder(out).Encode(r)
				}
				_, err := fmt.Fprintf(out, "%18s %9d %-18s  %s\n", r.Limit, r.Size, r.Figure(), bench.LimitMeans(r.Limit))
				return err
			})
		},
	}
	fs := c.Flags()
	durationFlag(fs, &o.Time, "time", time.Second, time.Millisecond, time.Hour, "how long to measure each limit and size")
	intFlag(fs, &o.Rounds, "rounds", 5, 1, 1000, "rounds in which that time is spent")
	mtuFlag(fs, &o.MTU)
	fs.BoolVar(&asJSON, "json", false, "print one JSON object for each limit and size")
	fs.Var(&checkedFlag{
		kind: "NAME,…",
		want: "some of " + strings.Join(bench.LimitNames(), ", "),
		set: func(s string) bool {
			o.Names = strings.Split(s, ",")
			return !slices.ContainsFunc(o.Names, func(n string) bool { return !slices.Contains(bench.LimitNames(), n) })
		},
	}, "only", "only these limits")
	fs.StringVar(&child, "child", "", "be one of the processes, and end with standard input")
	fs.Lookup("child").Hidden = true
	return c
}

func limitNames() string {
	var b strings.Builder
	for _, name := range bench.LimitNames() {
		fmt.Fprintf(&b, "  %-18s %s\n", name, bench.LimitMeans(name))
	}
	return b.String()
}
