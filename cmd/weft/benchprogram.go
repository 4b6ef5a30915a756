package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

// benchProgramFlags are the flags of `weft bench program`.
type benchProgramFlags struct {
	bench.ProgramOptions
	testbed  string
	against  string
	internal bool
	runaways bool
}

// newBenchProgram returns the command weft bench program.
func newBenchProgram() *cobra.Command {
	f := &benchProgramFlags{ProgramOptions: bench.ProgramOptions{Sizes: []int{64}}}
	return benchOf[bench.ProgramOptions, any]{
		o: &f.ProgramOptions, sealing: &f.Sealing, name: bench.KindProgram,
		short: "Compare exchanges between programs in NICs with those between processes",
		long: `Measures round trips between two NICs, in series that take turns:

  mcp2mcp     a program in each NIC; the program reads the clock
  getdeliver  the same, from a segment of one host to a segment of the other and back
  api         a process on each side, while programs are loaded and idle
  app2app     as getdeliver, but a process starts each half when it sees a flag

The NICs are on two hosts of a testbed (needs root), joined by a cable that AF_XDP drives. With
--testbed loopback, both are on this host and use UDP. With --wait sleep, a pause before each
exchange lets all waiters fall asleep.

--internal measures the parts of the virtual machine's time for a message, without a network:
dispatch, a whole handler, the interpreter's part of it, DELIVER, and the copy in DELIVER.

--runaways measures the rate of messages between two processes alone, and in turns the rate
beside programs that do not end: one in an endless loop, one that sends to itself, and one that
floods the network. The NIC stops them, and the command starts them again every 20 ms. Without
--time and --rounds, each takes 3 s in 15 rounds.`,
		example: `  weft bench program --against limit
  weft bench program --series mcp2mcp,api --size 512 --json
  weft bench program --internal
  weft bench program --runaways`,
		each: "series and size", self: &f.Self, argument: cobra.MaximumNArgs(1), flags: f.define, check: f.complete,
		spoilt: true,
		run:    f.run, head: f.head, line: programLine,
	}.command()
}

func (f *benchProgramFlags) define(fs *pflag.FlagSet) {
	f.Series, f.Residents, f.Waits = bench.Series(), []string{bench.ResidentVM}, []string{bench.WaitSpin}
	wordsFlag(fs, &f.Series, "series", "NAME,…", bench.Series(), "measure these series")
	numbersFlag(fs, &f.Sizes, "size", 0, bench.MostProgramSize, "numbers of bytes", "send messages of these lengths, "+
		"in bytes")
	wordsFlag(fs, &f.Residents, "resident", "NAME,…", bench.Residents(), "run the far program here")
	wordsFlag(fs, &f.Waits, "wait", "NAME,…", bench.Waits(), "let the far side wait in these ways")
	choiceFlag(fs, &f.Link, "link", bench.LinkXDP, []string{bench.LinkUDP, bench.LinkXDP},
		"carry frames over this link")
	choiceFlag(fs, &f.Deployment, "deployment", bench.DeployedDaemon,
		[]string{bench.DeployedEmbedded, bench.DeployedDaemon}, "run the NICs in the processes or in daemons")
	choiceFlag(fs, &f.testbed, "testbed", testbedVeth, []string{testbedLoopback, testbedVeth},
		"run the two sides on this host, or on two hosts of a testbed")
	choiceFlag(fs, &f.against, "against", "", []string{"limit"},
		"compare with the limit, in turns")
	durationFlag(fs, &f.Time, "time", time.Second, time.Millisecond, time.Hour,
		"measure each series and size for this time")
	intFlag(fs, &f.Rounds, "rounds", 5, 1, 1000, "divide that time into N rounds, and print medians")
	fs.BoolVar(&f.internal, "internal", false, "measure the parts of the virtual machine's time for a message")
	fs.BoolVar(&f.runaways, "runaways", false, "measure the rate of messages beside programs that do not end")
}

// complete checks the combinations of flags.
func (f *benchProgramFlags) complete(c *cobra.Command, args []string) error {
	fs := c.Flags()
	f.Veth, f.Against = f.testbed == testbedVeth, f.against != ""
	if f.runaways && !fs.Changed("time") && !fs.Changed("rounds") {
		f.Time, f.Rounds = bench.RunawayTime, bench.RunawayRounds
	}
	if !f.Veth && !fs.Changed("link") {
		f.Link = bench.LinkUDP
	}
	switch {
	case len(args) > 0:
		return usagef("an argument (%s): expected none", args[0])
	case !f.Veth && f.Link == bench.LinkXDP:
		return usagef(
			"--link xdp on this host: expected --testbed veth, since AF_XDP joins hosts by their network interfaces")
	case f.Link != bench.LinkXDP && slices.Contains(f.Residents, bench.ResidentXDP):
		return usagef(
			"--resident xdp with --link %s: expected --link xdp, since only AF_XDP has programs in the driver", f.Link)
	case slices.Contains(f.Residents, bench.ResidentXDP) && slices.Max(f.Sizes) > bench.MostResidentSize:
		return usagef("--resident xdp with --size %d: expected at most %d, since a message is one frame there",
			slices.Max(f.Sizes), bench.MostResidentSize)
	case f.internal && f.runaways:
		return usagef("--internal with --runaways: expected one or the other")
	case f.runaways && len(f.Sizes) > 1:
		return usagef("--runaways with --size %d,%d: expected one size", f.Sizes[0], f.Sizes[1])
	case (f.internal || f.runaways) && (fs.Changed("series") || fs.Changed("resident") || fs.Changed("wait") ||
		fs.Changed("link") || fs.Changed("deployment") || fs.Changed("testbed") || f.Against):
		return usagef("--internal or --runaways with --series, --resident, --wait, --link, --deployment, " +
			"--testbed or --against: expected none of them, since nothing crosses a network")
	}
	if !f.internal {
		if err := bench.CheckRounds(f.Time, f.Rounds); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	return nil
}

// run measures what the flags ask for, and passes each row to row.
func (f *benchProgramFlags) run(ctx context.Context, o bench.ProgramOptions, row func(any) error) error {
	switch {
	case f.internal:
		return bench.RunProgramInternal(ctx, o.Time, o.Sizes, func(r bench.InternalRow) error { return row(r) })
	case f.runaways:
		return bench.RunProgramRunaways(ctx, o.Time, o.Rounds, o.Sizes[0],
			func(r bench.RunawayRow) error { return row(r) })
	}
	return bench.RunProgram(ctx, o, func(r bench.ProgramRow) error { return row(r) })
}

func (f *benchProgramFlags) head() string {
	switch {
	case f.internal:
		return fmt.Sprintf(
			"# weft bench %s --internal: the best of rounds within %v for each part\n# %10s %7s %10s %7s\n",
			bench.KindProgram, f.Time, "part", "bytes", "ns", "allocs")
	case f.runaways:
		return fmt.Sprintf("# weft bench %s --runaways: messages of %d bytes a second; medians of %d rounds, "+
			"%v each\n# %10s %12s %12s %7s %8s\n",
			bench.KindProgram, f.Sizes[0], f.Rounds, f.Time,
			"runaway", "alone", "beside", "ratio", "stopped")
	}
	return fmt.Sprintf("# weft bench %s: round trips over %s, %s; medians of %d rounds, %v each\n# %10s %8s %6s %7s "+
		"%10s %10s %10s %12s %7s\n",
		bench.KindProgram, f.Link, bench.Deployed(f.Deployment), f.Rounds, f.Time,
		"series", "resident", "wait", "bytes", "exchanges", "p50 µs", "p99 µs", "limit p50", "ratio")
}

// programLine formats a row for people.
func programLine(row any) string {
	switch r := row.(type) {
	case bench.InternalRow:
		return fmt.Sprintf("%12s %7d %10.1f %7.0f\n", r.Internal, r.Size, r.Took, r.Allocs)
	case bench.RunawayRow:
		return fmt.Sprintf("%12s %12.0f %12.0f %7.2f %8d\n", r.Program, r.Alone, r.Beside, r.Ratio, r.Stopped)
	}
	r := row.(bench.ProgramRow)
	s := fmt.Sprintf("%12s %8s %6s %7d %10d %10.2f %10.2f",
		r.Series, cmp.Or(r.Resident, "-"), r.Wait, r.Size, r.Iterations, us(r.P50), us(r.P99))
	if a := r.Against; a != nil {
		s += fmt.Sprintf(" %12.2f %7.2f  %s", us(a.LimitP50), a.Ratio, a.Limit)
	}
	if r.Lost > 0 {
		s += fmt.Sprintf("  %d lost", r.Lost)
	}
	return s + "\n"
}
