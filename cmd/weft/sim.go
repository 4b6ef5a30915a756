package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/sweep"
)

func init() { register(newSimCommand) }

// mutationSeeds is the number of seeds within which a defect must be caught.
const mutationSeeds = 1000

// waySeeds is the number of seeds within which every way must be taken.
const waySeeds = 300

type simFlags struct {
	seed   uint64
	seeds  int
	mutate string
	json   bool
	list   bool
	log    bool
}

func newSimCommand() *cobra.Command {
	var f simFlags
	c := &cobra.Command{
		Use:   "sim [--seed N | --seeds N] [--mutate NAME] [--json]",
		Short: "Run simulated fabrics under faults and check every promise",
		Long: `Runs simulated fabrics on virtual time, each from one seed, under loss, duplication,
reordering, corruption, partitions, restarts and hostile processes. After each run, the command
checks that Weft kept every promise. If a run violates one, the command prints its seed. The
same seed repeats the same run.

With --mutate, the fabric has a known defect, and the command succeeds if it catches the defect.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runSim(c.Context(), c.OutOrStdout(), &f, c.Flags().Changed)
		},
	}
	c.AddCommand(newCollectivesCommand())
	seedFlag(c.Flags(), &f.seed, "seed", 1, "run this seed alone, or first if --seeds is given")
	intFlag(c.Flags(), &f.seeds, "seeds", 100, 1, 1<<30, "run N seeds")
	c.Flags().StringVar(&f.mutate, "mutate", "", "switch on the defect `NAME`, and find it; --list-mutations prints "+
		"all names")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	c.Flags().BoolVar(&f.log, "log", false, "with --seed: print each fault, and its time")
	c.Flags().BoolVar(&f.list, "list-mutations", false, "print the names of the defects and exit")
	return c
}

func runSim(ctx context.Context, out io.Writer, f *simFlags, given func(flag string) bool) error {
	if f.list {
		_, err := fmt.Fprintln(out, strings.Join(mutate.Names(), "\n"))
		return err
	}
	o, err := f.options(given)
	if err != nil {
		return err
	}
	if f.log {
		o.Log = out
	}
	r := sweep.Sweep(ctx, o)
	if err := printReport(out, r, f.json); err != nil {
		return err
	}
	return judge(ctx, r, o)
}

// options returns the runs that the flags ask for.
func (f *simFlags) options(given func(flag string) bool) (o sweep.Options, err error) {
	o = sweep.Options{First: f.seed, Seeds: f.seeds}
	if f.mutate != "" {
		o.Defect, err = mutate.Parse(f.mutate)
		if err != nil || o.Defect == mutate.None {
			return o, usagef("--mutate %s: expected one of %s", f.mutate, strings.Join(mutate.Names(), ", "))
		}
		o.Stop = true
		if !given("seeds") {
			o.Seeds = mutationSeeds
		}
	}
	one := given("seed") && !given("seeds")
	if one {
		o.Seeds = 1
	}
	if f.log && (!one || f.json) {
		return o, usagef("--log: expected with --seed and without --seeds, since it describes one run")
	}
	return o, nil
}

func printReport(out io.Writer, r *sweep.Report, asJSON bool) error {
	if !asJSON {
		r.Write(out)
		return nil
	}
	return json.NewEncoder(out).Encode(r)
}

// judge returns the error for the exit status of a report.
func judge(ctx context.Context, r *sweep.Report, o sweep.Options) error {
	switch caught := r.Violations > 0; {
	case o.Defect != mutate.None && caught:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted after %s", sweep.Plural(r.Seeds, "seed"))
	case o.Defect != mutate.None:
		return fmt.Errorf("the defect %v was not caught in %s", o.Defect, sweep.Plural(r.Seeds, "seed"))
	case caught:
		return errors.New(sweep.Plural(r.Violations, "violation"))
	}
	if m := r.Faults.Missing(); o.Seeds >= mutationSeeds && len(m) > 0 {
		return fmt.Errorf("these faults never happened in %d seeds: %s", r.Seeds, strings.Join(m, ", "))
	}
	if m := r.Ways.Missing(); o.Seeds >= waySeeds && len(m) > 0 {
		return fmt.Errorf("these code paths were never taken in %d seeds: %s", r.Seeds, strings.Join(m, ", "))
	}
	return nil
}
