package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/bench"
)

// newBenchVM is weft bench vm.
func newBenchVM() *cobra.Command {
	var o bench.VMOptions
	var asJSON bool
	c := &cobra.Command{
		Use:   bench.KindVM + " [flags]",
		Short: "Measure the virtual machine that runs programs in the NIC",
		Long: `Measures four loops that programs in the NIC are made of, each in turns with the same
loop in Go: the sum of an array, a checksum, a token bucket, and look-ups in a hash
table. What is counted are operations of the source: operators, elements and bytes by
index, assignments. The last row has the geometric means.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out := c.OutOrStdout()
			warn(c)
			if !asJSON {
				fmt.Fprintf(out, "# weft bench %s: operations of the source; the best of rounds within %v for each kernel\n# %14s %12s %12s %12s %9s\n",
					bench.KindVM, o.Time, "kernel", "activations", "ns each", "M/s", "x native")
			}
			return bench.RunVM(c.Context(), o, func(r bench.VMRow) error {
				if asJSON {
					return json.NewEncoder(out).Encode(r)
				}
				_, err := fmt.Fprintf(out, "%16s %12d %12.2f %12.0f %9.1f\n", r.Kernel, r.Iterations, r.PerOp, r.OpsPerSec/1e6, r.NativeRatio)
				return err
			})
		},
	}
	durationFlag(c.Flags(), &o.Time, "time", time.Second, time.Millisecond, time.Hour, "how long to measure each kernel")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each kernel")
	return c
}
