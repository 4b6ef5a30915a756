package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench/machine"
)

func init() { register(newVictimCommand) }

// machineBenches returns the commands that measure `weft run`.
func machineBenches() []*cobra.Command {
	return []*cobra.Command{deathsBench(), linesBench(), unreadBench(), startsBench()}
}

func deathsBench() *cobra.Command {
	var o machine.DeathsOptions
	return benchOf[machine.DeathsOptions, machine.DeathsRow]{
		o: &o, name: machine.KindDeaths,
		short: "Check that jobs leave nothing behind when a rank, daemon, launcher or host dies",
		long: `Creates hosts from network namespaces (needs root), starts a NIC daemon on each, and runs jobs
on them with weft run. In each round, a job dies in each way. A row shows how long processes of
the job survived, and the remaining processes, memory files and sockets. The exit status is 1
if anything remained after a minute.`, each: "way to die",
		self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Hosts, "hosts", 4, 2, 16, "use a testbed of N hosts")
			intFlag(fs, &o.Ranks, "ranks", 8, 3, 256, "run jobs of N ranks")
			intFlag(fs, &o.Rounds, "rounds", 20, 1, 1000, "run N jobs for each way to die")
			durationFlag(fs, &o.Grace, "grace", time.Second, 10*time.Millisecond, time.Minute,
				"wait this long between SIGTERM and SIGKILL")
			wordsFlag(fs, &o.Kinds, "only", "WAY,…", machine.Deaths(), "test only these ways to die")
		},
		run: machine.RunDeaths,
		head: func() string {
			return fmt.Sprintf("# weft bench %s: %d rounds each, %d ranks on %d hosts, grace %v\n",
				machine.KindDeaths, o.Rounds, o.Ranks, o.Hosts, o.Grace)
		},
		line: func(r machine.DeathsRow) string {
			left := "nothing left"
			if len(r.Left) > 0 {
				left = "LEFT: " + strings.Join(r.Left, "; ")
			}
			return fmt.Sprintf("%-30s median %4d ms, most %4d ms, bound %4d ms, late %d; %s; said: %s\n",
				r.Kind, ms(r.Median), ms(r.Most), ms(r.Bound), r.Late, left, r.Said)
		},
	}.command()
}

func linesBench() *cobra.Command {
	var o machine.LinesOptions
	return benchOf[machine.LinesOptions, machine.LinesRow]{
		o: &o, name: machine.KindLines, short: "Check that no line of many ranks is lost, torn or out of order",
		long: `Runs ranks that print numbered lines with weft run, and checks each line. The exit status is 1
if a line was lost, torn or out of its rank's order, or if the launcher used more than 64 MiB
of memory.`,
		self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Hosts, "hosts", 0, 0, 16, "use a testbed of N hosts; 0: all ranks on this host")
			intFlag(fs, &o.Ranks, "ranks", 8, 1, 256, "run a job of N ranks")
			intFlag(fs, &o.Lines, "lines", 1_000_000, 1, 1<<30, "print N lines from each rank")
		},
		run: single(machine.RunLines),
		line: func(r machine.LinesRow) string {
			return fmt.Sprintf(
				"%d lines of %d ranks in order and whole, %.1f MB in %.2f s (%.1f MB/s); launcher %.1f MiB\n",
				r.Lines, r.Ranks, float64(r.Bytes)/1e6, r.Seconds, float64(r.Bytes)/1e6/r.Seconds,
				float64(r.Launcher)/(1<<20))
		},
	}.command()
}

func unreadBench() *cobra.Command {
	var o machine.UnreadOptions
	return benchOf[machine.UnreadOptions, machine.UnreadRow]{
		o: &o, name: machine.KindUnread, short: "Check that unread input takes no memory",
		long: `Offers input through weft run to a rank that never reads. Compares the memory of the launcher
and the keeper with that of the same job without input. The exit status is 1 if they use more,
or if the job does not end at SIGTERM.`,
		self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Bytes, "bytes", 100_000_000, 1, 1<<40, "offer N bytes of input")
			timeFlag(fs, &o.Time, 3*time.Second, "offer them for this time")
		},
		run: single(machine.RunUnread),
		line: func(r machine.UnreadRow) string {
			return fmt.Sprintf("%d bytes offered, %d taken; %.1f MiB more memory than without, launcher %.1f MiB; "+
				"ended %d ms after SIGTERM\n",
				r.Offered, r.Taken, float64(r.Growth)/(1<<20), float64(r.Launcher)/(1<<20), ms(r.Ended))
		},
	}.command()
}

func startsBench() *cobra.Command {
	var o machine.StartsOptions
	return benchOf[machine.StartsOptions, machine.StartsRow]{
		o: &o, name: machine.KindStarts, short: "Compare the start of programs with the launchers of MPI",
		long: `Starts the program true on many ranks, in turns by weft run and by the launchers of Open MPI
and MPICH, if they are installed. The ratio is weft's median divided by theirs. Then the
command starts 4 and 16 ranks on each host of a testbed (needs root). That ratio is the second
median divided by the first.`, each: "launcher",
		self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Ranks, "ranks", 8, 1, 256, "start N ranks on this host")
			intFlag(fs, &o.Hosts, "hosts", 4, 0, 16, "use a testbed of N hosts; 0: none")
			intFlag(fs, &o.Rounds, "rounds", 9, 1, 1000, "start N times with each launcher")
		},
		run: machine.RunStarts,
		head: func() string {
			return fmt.Sprintf("# weft bench %s: medians of %d rounds\n", machine.KindStarts, o.Rounds)
		},
		line: func(r machine.StartsRow) string {
			if r.Missing != "" {
				return fmt.Sprintf("%-16s %s\n", r.Launcher, r.Missing)
			}
			line := fmt.Sprintf("%-16s %3d ranks on %d hosts: %6.1f ms",
				r.Launcher, r.Ranks, r.Hosts, float64(r.Median)/1e6)
			if r.Ratio > 0 {
				line += fmt.Sprintf("; ratio %.2f", r.Ratio)
			}
			return line + "\n"
		},
	}.command()
}

func ms(ns int64) int64 { return ns / int64(time.Millisecond) }

// newVictimCommand returns the command that the ranks of these measurements run.
func newVictimCommand() *cobra.Command {
	return &cobra.Command{
		Use: "victim KIND ARGUMENT", Short: "Be a rank of weft bench deaths or weft bench lines", Hidden: true,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] != "speaker" {
				return machine.Victim(args[0], args[1])
			}
			var n int
			if _, err := fmt.Sscan(args[1], &n); err != nil {
				return usagef("%q lines; expected a number", args[1])
			}
			return machine.Speaker(n)
		},
	}
}
