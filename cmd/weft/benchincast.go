package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/bench"
)

// newBenchIncast is weft bench incast.
func newBenchIncast() *cobra.Command {
	var o bench.IncastOptions
	var asJSON bool
	var child, to string
	c := &cobra.Command{
		Use:   bench.KindIncast + " [flags]",
		Short: "Measure what many senders of long messages do to one receiver, and to its short messages",
		Long: `Measure what many senders of long messages do to one receiver, and to its short messages.

Each sender has a NIC of its own; all are in one program, the receiver in another, and short messages come from a third.
All goes over UDP on loopback. Half of the time the senders rest, so that the short messages can be compared.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			out := c.OutOrStdout()
			switch child {
			case "receive":
				return bench.ReceiveIncast(c.Context(), o, c.InOrStdin(), out)
			case "send":
				return bench.SendIncast(c.Context(), o, to, c.InOrStdin(), out)
			}
			if o.Self, err = os.Executable(); err != nil {
				return err
			}
			r, err := bench.RunIncast(c.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(out).Encode(r)
			}
			_, err = fmt.Fprintf(out, "# weft bench %s: %d senders, messages of %d bytes, %v\n# %8s %12s %8s %11s %11s %11s %11s\n%10d %12.2f %8.4f %11.2f %11.2f %11.2f %11.2f\n",
				r.Bench, r.Senders, r.Size, o.Time, "drops", "MB/s", "jain", "small p50", "small p99", "alone p50", "alone p99",
				r.Drops, r.Rate/1e6, r.Jain, float64(r.Small)/1e3, float64(r.Small99)/1e3, float64(r.Alone)/1e3, float64(r.Alone99)/1e3)
			return err
		},
	}
	fs := c.Flags()
	intFlag(fs, &o.Senders, "senders", 15, 1, 64, "how many send long messages")
	sizeFlag(fs, &o.Size, 1<<20, "length of a long message in bytes")
	durationFlag(fs, &o.Time, "time", 5*time.Second, time.Millisecond, time.Hour, "how long to measure")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object")
	fs.StringVar(&child, "child", "", "be one of the programs: receive or send")
	fs.StringVar(&to, "to", "", "address of the receiver")
	for _, name := range []string{"child", "to"} {
		fs.Lookup(name).Hidden = true
	}
	return c
}
