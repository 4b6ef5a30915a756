package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/bench"
	"github.com/weftnet/weft/internal/hostile"
)

// hostileFlags are the flags of `weft bench hostile`.
type hostileFlags struct {
	bench.HostileOptions
	json   bool
	child  string
	socket string
	others string
}

// newBenchHostile is weft bench hostile.
func newBenchHostile() *cobra.Command {
	f := &hostileFlags{}
	c := &cobra.Command{
		Use:   "hostile [flags]",
		Short: "Set hostile processes on a NIC daemon and measure what it costs the others",
		Long: `Starts a NIC daemon and processes that exchange messages by it, each of which is
checked, and sets processes on them that misbehave in every way that a process can.
The time of round trips is compared with that beside as many processes that only
burn the processor, in turns. The status is 1 if a message was lost, doubled or
altered, if the daemon ended, did not name an offender, or holds anything when all
have gone, or if a round trip took more than ` + fmt.Sprint(bench.HostileBound) + ` times as long (median).

` + hostileKinds(),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if f.child != "" {
				ctx := bench.EndWithInput(c.Context(), c.InOrStdin())
				return bench.HostileChild(ctx, f.child, f.socket, f.Seed, strings.Split(f.others, ","), c.OutOrStdout())
			}
			if f.Self, err = os.Executable(); err != nil {
				return err
			}
			return f.run(c.Context(), c.OutOrStdout())
		},
	}
	fs := c.Flags()
	durationFlag(fs, &f.Time, "time", time.Minute, 100*time.Millisecond, 24*time.Hour, "how long to measure, all kinds together")
	intFlag(fs, &f.Each, "each", 2, 1, 64, "how many processes of one kind at a time")
	fs.Uint64Var(&f.Seed, "seed", 1, "what they draw from")
	fs.BoolVar(&f.json, "json", false, "print one JSON object for each kind")
	fs.Var(&checkedFlag{
		kind: "KIND,…",
		want: "some of " + strings.Join(hostile.Kinds(), ", ") + ", all",
		set: func(s string) bool {
			f.Kinds = strings.Split(s, ",")
			return !slices.ContainsFunc(f.Kinds, func(k string) bool { return k != "all" && hostile.What(k) == "" })
		},
	}, "kinds", "only these ways to misbehave; all is all at once")
	fs.StringVar(&f.child, "child", "", "be one of the processes, and end with standard input")
	fs.StringVar(&f.socket, "socket", "", "with --child: whom to attach to")
	fs.StringVar(&f.others, "others", "", "with --child: the names of others")
	for _, name := range []string{"child", "socket", "others"} {
		fs.Lookup(name).Hidden = true
	}
	return c
}

func hostileKinds() string {
	var b strings.Builder
	for _, k := range hostile.Kinds() {
		fmt.Fprintf(&b, "  %-12s %s\n", k, hostile.What(k))
	}
	return b.String()
}

func (f *hostileFlags) run(ctx context.Context, out io.Writer) error {
	if !f.json {
		fmt.Fprintf(out, "# weft bench hostile: round trips beside hostile processes, and beside busy ones; %v in all\n# %10s %9s %10s %10s %10s %10s %6s %9s %9s %9s\n",
			f.Time, "kind", "exchanges", "p50 µs", "p99 µs", "busy p50", "busy p99", "ratio", "attached", "refused", "thrown out")
	}
	return bench.RunHostile(ctx, f.HostileOptions, func(r bench.HostileRow) error {
		if f.json {
			return json.NewEncoder(out).Encode(r)
		}
		us := func(ns int64) float64 { return float64(ns) / 1e3 }
		_, err := fmt.Fprintf(out, "%12s %9d %10.1f %10.1f %10.1f %10.1f %6.2f %9d %9d %9d\n", r.Kind, r.Exchanges,
			us(r.P50), us(r.P99), us(r.BesideP50), us(r.BesideP99), r.Ratio, r.Attached, r.Refused, r.ThrownOut)
		if r.Named != "" && err == nil {
			_, err = fmt.Fprintf(out, "#   %s\n", r.Named)
		}
		return err
	})
}
