package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

// newBenchFairness is weft bench fairness.
func newBenchFairness() *cobra.Command {
	var o bench.FairOptions
	var crew bench.FairCrew
	var asJSON, child bool
	c := &cobra.Command{
		Use:   bench.KindFairness + " [flags]",
		Short: "Measure how evenly one NIC serves many processes",
		Long: `Measure how evenly one NIC serves many processes.

Two NIC daemons are started on this host, and programs with so many attached processes in all. Each process sends to its
neighbour on the same NIC and to a receiver on the other, as much as it can, and receives from its other neighbour. What
is compared is the bytes a second that each has sent and received, by Jain's index: 1 when all are equal.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if child {
				crew.Processes, crew.Size, crew.Time = o.Processes, o.Size, o.Time
				return crew.Run(c.Context(), c.InOrStdin(), c.OutOrStdout())
			}
			if o.Self, err = os.Executable(); err != nil {
				return err
			}
			r, err := bench.RunFairness(c.Context(), o)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(r)
			}
			_, err = fmt.Fprintf(out, "# weft bench %s: %d processes, messages of %d bytes, %v\n# %8s %12s %12s %12s %14s\n%10.4f %12.2f %12.2f %12.2f %14.2f\n",
				r.Bench, r.Processes, r.Size, o.Time, "jain", "min MB/s", "median MB/s", "max MB/s", "all MB/s",
				r.Jain, r.Least/1e6, r.Median/1e6, r.Most/1e6, r.Total/1e6)
			return err
		},
	}
	fs := c.Flags()
	intFlag(fs, &o.Processes, "processes", 256, 2, 1024, "how many processes are attached")
	intFlag(fs, &o.Programs, "programs", 4, 1, 64, "how many programs they are spread over")
	sizeFlag(fs, &o.Size, 256<<10, "length of a message in bytes")
	durationFlag(fs, &o.Time, "time", 5*time.Second, time.Millisecond, time.Hour, "how long to measure")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object")
	fs.BoolVar(&child, "child", false, "be one of the programs")
	fs.StringVar(&crew.Socket, "socket", "", "of the daemon that serves them")
	fs.BoolVar(&crew.Sink, "sink", false, "only receive")
	fs.IntVar(&crew.First, "first", 0, "index of the first process")
	fs.IntVar(&crew.Count, "count", 0, "how many")
	for _, name := range []string{"child", "socket", "sink", "first", "count"} {
		fs.Lookup(name).Hidden = true
	}
	return c
}

// sizeFlag defines a flag that takes the length of a message.
func sizeFlag(fs *pflag.FlagSet, p *int, value int, usage string) {
	*p = value
	fs.Var(&checkedFlag{
		kind: "N",
		text: strconv.Itoa(value),
		want: fmt.Sprintf("a number of bytes from 1 to %d, such as 64, 4KiB or 1MiB", bench.MaxSize),
		set: func(s string) bool {
			sizes, ok := bench.ParseSizes(s)
			if !ok || len(sizes) != 1 || sizes[0] == 0 {
				return false
			}
			*p = sizes[0]
			return true
		},
	}, "size", usage)
}
