package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

func vmBench() *cobra.Command {
	var o bench.VMOptions
	return benchOf[bench.VMOptions, bench.VMRow]{
		o: &o, name: bench.KindVM, short: "Measure the virtual machine that runs programs in the NIC",
		long: `Measures four typical loops of programs in the NIC, each in turns with the same loop in Go: the
sum of an array, a checksum, a token bucket, and look-ups in a hash table. It counts operations
of the source: operators, accesses by index to elements and bytes, and assignments. The last
row has the geometric means.`, each: "kernel", spoilt: true,
		flags: func(fs *pflag.FlagSet) { timeFlag(fs, &o.Time, time.Second, "measure each kernel for this time") },
		run:   bench.RunVM,
		head: func() string {
			return fmt.Sprintf("# weft bench %s: operations of the source; "+
				"the best of rounds within %v for each kernel\n# %14s %12s %12s %12s %9s\n",
				bench.KindVM, o.Time, "kernel", "activations", "ns each", "M/s", "x native")
		},
		line: func(r bench.VMRow) string {
			return fmt.Sprintf("%16s %12d %12.2f %12.0f %9.1f\n",
				r.Kernel, r.Iterations, r.PerOp, r.OpsPerSec/1e6, r.NativeRatio)
		},
	}.command()
}
