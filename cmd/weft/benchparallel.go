package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

// parallelBench returns the command weft bench parallel.
func parallelBench() *cobra.Command {
	var o bench.ParallelOptions
	return benchOf[bench.ParallelOptions, bench.ParallelRow]{
		o: &o, name: bench.KindParallel, short: "Compare data-parallel programs with plain loops, calls and MPICH",
		long: `Compares package parallel, in turns, with the means that a program could use instead:

  jacobi     Jacobi's iteration on one rank, compared with a Go loop
  jacobi-2   the same on two ranks, compared with two goroutines
  halo       an exchange of halos of 8 KiB, compared with a Call with 8 KiB each way
  hidden     the share of the wait for a halo that Jacobi hides behind its interior
  scan       prefix sums of 2²⁴ numbers, compared with a copy of their memory
  order      a sum in the order that gives the same bits on any number of ranks, compared
             with a sum in which each rank adds its own part first
  stencil    the stencil of the Parallel Research Kernels, compared with MPICH
  transpose  the transposition of the Parallel Research Kernels, compared with MPICH

Two ranks are two processes on this host. Each has a NIC of its own and one half of the
processors. The NICs use shared memory, as MPICH does on one host. The programs of MPICH
are compiled by mpicc in each run. Without mpicc and mpiexec, these rows have no figures.
Go's compiler uses no vector instructions, and --cflags '-O3 -march=native' shows what that
costs.

Each result is compared with that of a serial computation. A row has the ratio to the
baseline, the median of the rounds, and its bound. The exit status does not depend on the
ratios.`,
		example: `  weft bench parallel
  weft bench parallel --only halo,scan --time 5s --json`,
		each: "case", self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			wordsFlag(fs, &o.Cases, "only", "CASE,…", bench.ParallelCases(), "measure only these cases")
			timeFlag(fs, &o.Time, 3*time.Second, "measure each case and its baseline for this time")
			intFlag(fs, &o.Rounds, "rounds", 9, 1, 1000,
				"let each case and its baseline take turns N times, and print medians")
			fs.StringVar(&o.Flags, "cflags", "-O2", "compile the programs of MPICH with `FLAGS`")
			fs.BoolVar(&o.Small, "small", false, "measure small shapes, to check the results")
		},
		check: func(*cobra.Command, []string) error {
			if err := bench.CheckRounds(o.Time, o.Rounds); err != nil {
				return &exitError{exitUsage, err}
			}
			return nil
		},
		run: bench.RunParallel,
		head: func() string {
			return fmt.Sprintf(
				"# weft bench %s: %v for each case, medians of %d rounds\n# %-9s %5s %9s %12s %12s  %s\n",
				bench.KindParallel, o.Time, o.Rounds, "case", "ranks", "size", "µs", "baseline µs", "ratio")
		},
		line: parallelLine,
	}.command()
}

// parallelLine formats a row for people.
func parallelLine(r bench.ParallelRow) string {
	line := fmt.Sprintf("%-11s %5d %9d ", r.Case, r.Ranks, r.Size)
	if r.Missing != "" {
		return line + r.Missing + "\n"
	}
	bound, kind, met := "at most", "bound", "met"
	if r.AtLeast {
		bound = "at least"
	}
	if r.Aim {
		kind = "aim"
	}
	if !r.Met {
		met = "MISSED"
	}
	return line + fmt.Sprintf("%12.2f %12.2f  %s of %s %.3f, %s %s %.2f: %s\n",
		us(r.Took), us(r.BaseTook), r.Measure, r.Baseline, r.Ratio, kind, bound, r.Bound, met)
}
