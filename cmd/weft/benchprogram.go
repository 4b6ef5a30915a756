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
		short: "Measure exchanges between programs in NICs, beside those between processes",
		long: `Measures round trips between two NICs, in series that take turns:

  mcp2mcp     a program in one NIC and a program in the other; the program has the clock
  getdeliver  the same, from a segment of one host to one of the other and back
  api         a process and a process, while programs are loaded and do nothing
  app2app     as getdeliver, but each half is started by a process, which a flag has told

The NICs are on two hosts that are made for it (needs root) and joined by a cable, which
AF_XDP drives; --testbed loopback has both on this host, by UDP. With --wait sleep there
is a pause before each exchange, in which all that waits falls asleep.

With --internal, what the virtual machine takes for a message is measured by its parts,
without a network: dispatch, a handler as a whole, the interpreter's part of it, DELIVER,
and the copy that is in there.

With --runaways, the rate of messages between two processes is measured in turns with the
rate beside programs that will not end: one in an endless loop, one that sends to itself,
and one that floods the network. They are stopped, and started again every 20 ms.
Unless --time or --rounds say something else, each takes 3 s in 15 rounds.`,
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
	wordsFlag(fs, &f.Series, "series", "NAME,…", bench.Series(), "what exchanges messages")
	numbersFlag(fs, &f.Sizes, "size", 0, bench.MostProgramSize, "numbers of bytes", "length of a message, in bytes")
	wordsFlag(fs, &f.Residents, "resident", "NAME,…", bench.Residents(), "where the far program is")
	wordsFlag(fs, &f.Waits, "wait", "NAME,…", bench.Waits(), "how the far side waits")
	choiceFlag(fs, &f.Link, "link", bench.LinkXDP, []string{bench.LinkUDP, bench.LinkXDP}, "what carries the frames")
	choiceFlag(fs, &f.Deployment, "deployment", bench.DeployedDaemon,
		[]string{bench.DeployedEmbedded, bench.DeployedDaemon}, "where the NICs are: in the processes, or in daemons")
	choiceFlag(fs, &f.testbed, "testbed", testbedVeth, []string{testbedLoopback, testbedVeth},
		"where the two sides are: on this host, or on two made for it")
	choiceFlag(fs, &f.against, "against", "", []string{"limit"},
		"measure beside what the ground allows, in turns with it")
	durationFlag(fs, &f.Time, "time", time.Second, time.Millisecond, time.Hour,
		"how long to measure each series and size")
	intFlag(fs, &f.Rounds, "rounds", 5, 1, 1000, "rounds in which that time is spent; what is printed are medians")
	fs.BoolVar(&f.internal, "internal", false, "measure the parts of a message's way through the virtual machine")
	fs.BoolVar(&f.runaways, "runaways", false, "measure the rate of messages beside programs that will not end")
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
		return usagef("--internal or --runaways with --series, --resident, --wait, --link, --deployment, --testbed or " +
			"--against: expected none of them, since nothing crosses a network")
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
		return fmt.Sprintf("# weft bench %s --runaways: messages of %d bytes a second; medians of %d rounds, %v each\n# "+
			"%10s %12s %12s %7s %8s\n",
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
