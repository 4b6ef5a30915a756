package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/sweep"
)

// newCollectivesCommand returns the command weft sim collectives.
func newCollectivesCommand() *cobra.Command {
	var nics int
	var seed uint64
	var asJSON bool
	c := &cobra.Command{
		Use:   "collectives [--nics N] [--seed N] [--json]",
		Short: "Count the rounds of barriers and the steps of trees over many simulated NICs",
		Long: `Runs barriers, a broadcast and a reduction over 2, 4, 8 … simulated NICs on virtual time. For
each number of NICs, the command prints the rounds of a barrier, their bound (log2 of the
NICs), and the virtual time of one barrier. It also prints the longest path of a broadcast by a
binomial tree, which has the same bound, and by a tree on a torus, with its bound. If a bound
was exceeded, the exit status is 1.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runCollectives(c.Context(), c.OutOrStdout(), seed, nics, asJSON)
		},
	}
	intFlag(c.Flags(), &nics, "nics", 1024, 2, 1024, "simulate up to N NICs")
	seedFlag(c.Flags(), &seed, "seed", 1, "draw the runs from seed N")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

func runCollectives(ctx context.Context, out io.Writer, seed uint64, nics int, asJSON bool) error {
	runs, err := sweep.Collectives(ctx, seed, nics)
	if asJSON {
		for _, r := range runs {
			if err := json.NewEncoder(out).Encode(r); err != nil {
				return err
			}
		}
	} else {
		fmt.Fprintf(out, "%8s %8s %8s %14s %10s %8s %12s\n",
			"nics", "rounds", "bound", "virtual ns", "binomial", "torus", "torus bound")
		for _, r := range runs {
			fmt.Fprintf(out, "%8d %8d %8d %14d %10d %8d %12d\n",
				r.NICs, r.Rounds, r.Bound, r.VirtualNS, r.Binomial, r.Torus, r.TorusBound)
		}
	}
	if err != nil {
		return err
	}
	for _, r := range runs {
		if !r.Kept() {
			return fmt.Errorf("%d NICs: a barrier took %d rounds, a binomial tree %d steps; the bound is %d. "+
				"A tree on a torus took %d; the bound is %d",
				r.NICs, r.Rounds, r.Binomial, r.Bound, r.Torus, r.TorusBound)
		}
	}
	return nil
}
