package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
	"github.com/weftnet/weft/internal/hostile"
)

// The kinds of `weft bench` that have their own options. bench.Kinds holds those that measure
// between two processes.

func us(ns int64) float64 { return float64(ns) / 1e3 }

func lossBench() *cobra.Command {
	o := bench.LossOptions{Loss: 0.01}
	var on, hdr string
	return benchOf[bench.LossOptions, bench.LossRow]{
		o: &o, sealing: &o.Sealing, name: bench.KindLoss,
		short: "Measure what lost packets cost: goodput, and round trips",
		long: `Measures a stream between two hosts whose network loses packets, each way, beside the
same stream between two hosts with the same programs attached that lose none; and
round trips of 64 bytes with the loss. The hosts are made for it (needs root), and
each has half of the processors.`,
		self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			choiceFlag(fs, &o.Link, "link", bench.LinkUDP, []string{bench.LinkUDP, bench.LinkXDP},
				"what carries the frames")
			choiceFlag(fs, &o.Deployment, "deployment", bench.DeployedEmbedded,
				[]string{bench.DeployedEmbedded, bench.DeployedDaemon},
				"where the NICs are: in the processes, or in daemons")
			choiceFlag(fs, &on, "testbed", testbedVeth, []string{testbedVeth},
				"where the two sides are: on hosts made for it")
			shareFlag(fs, &o.Loss, "loss", "packets that are lost, each way (default 1%)")
			mtuFlag(fs, &o.MTU)
			sizeFlag(fs, &o.Size, 1<<20, "length of a message of the stream in bytes")
			timeFlag(fs, &o.Time, 5*time.Second, "how long to measure each of the three")
			intFlag(fs, &o.Rounds, "rounds", 50, 1, 1000, "how often they take turns")
			hdrFlag(fs, &hdr)
		},
		check: func(*cobra.Command, []string) (err error) {
			if o.Loss == 1 {
				return usagef("--loss 100%%: expected less, since no packet would arrive")
			}
			if err := bench.CheckRounds(o.Time, o.Rounds); err != nil {
				return &exitError{exitUsage, err}
			}
			o.HDR, err = writeHDR(hdr)
			return err
		},
		run: single(bench.RunLoss),
		line: func(r bench.LossRow) string {
			return fmt.Sprintf("# weft bench %s: link %s, %s, messages of %d bytes, %.2f %% lost each way\n# %10s %12s %14s "+
				"%11s %11s %11s %11s\n%12.2f %12.2f %14.3f %11.2f %11.2f %11.2f %11.2f\n",
				r.Bench, r.Link, r.Deployment, r.Size, 100*r.Lost, "MB/s", "at no loss", "goodput ratio", "p50 µs",
				"p90 µs", "p99 µs", "p99.9 µs",
				r.Goodput/1e6, r.Clean/1e6, r.Ratio, us(r.P50), us(r.P90), us(r.P99), us(r.P999))
		},
	}.command()
}

func idleBench() *cobra.Command {
	var o bench.IdleOptions
	return benchOf[bench.IdleOptions, bench.IdleRow]{
		o: &o, sealing: &o.Sealing, name: bench.KindIdle,
		short: "Measure what a NIC daemon costs, and its processes, when nothing is to be done", self: &o.Self,
		spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Processes, "processes", 128, 1, 1024, "how many processes are attached")
			intFlag(fs, &o.Programs, "programs", 4, 1, 128,
				"how many programs they are spread over; fewer if there are fewer processes")
			timeFlag(fs, &o.Time, 5*time.Second, "how long to measure")
		},
		// a program without a process would end at once, and an ended program has no processor
		// clock
		check: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("programs") && o.Programs > o.Processes {
				return usagef("--programs %d with --processes %d: expected at most as many programs as processes",
					o.Programs, o.Processes)
			}
			return nil
		},
		run: single(bench.RunIdle),
		line: func(r bench.IdleRow) string {
			return fmt.Sprintf("# weft bench %s: %d processes that wait, %.1f s\n# %10s %12s %12s   %% of a core\n%12.4f "+
				"%12.4f %12.4f\n",
				r.Bench, r.Processes, r.Seconds, "daemon", "processes", "all", 100*r.Daemon, 100*r.Attached, 100*r.Core)
		},
	}.command()
}

func pollBench() *cobra.Command {
	o := bench.PollOptions{Processes: []int{1, 128, 1024}}
	return benchOf[bench.PollOptions, bench.PollRow]{
		o: &o, name: bench.KindPoll, short: "Measure a poll of an engine that serves idle processes", each: "number",
		spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			numbersFlag(fs, &o.Processes, "processes", 1, 4096, "whole numbers", "how many processes are idle")
			timeFlag(fs, &o.Time, time.Second, "how long to measure with each number")
		},
		run: bench.RunPoll,
		head: func() string {
			return fmt.Sprintf("# weft bench %s: one poll, while all processes are idle; %v each\n# %8s %12s %12s\n",
				bench.KindPoll, o.Time, "idle", "polls", "ns a poll")
		},
		line: func(r bench.PollRow) string {
			return fmt.Sprintf("%10d %12d %12.1f\n", r.Processes, r.Iterations, r.Poll)
		},
	}.command()
}

func fairnessBench() *cobra.Command {
	var o bench.FairOptions
	return benchOf[bench.FairOptions, bench.FairRow]{
		o: &o, sealing: &o.Sealing, name: bench.KindFairness, short: "Measure how evenly one NIC serves many processes",
		long: `Measure how evenly one NIC serves many processes.

Two NIC daemons are started on this host, and programs with so many attached processes in all. Each process sends to its
neighbour on the same NIC and to a receiver on the other, as much as it can, and receives from its other neighbour. What
is compared is the bytes a second that each has sent and received, by Jain's index: 1 when all are equal.`,
		self: &o.Self,
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Processes, "processes", 256, 2, 1024, "how many processes are attached")
			intFlag(fs, &o.Programs, "programs", 4, 1, 64, "how many programs they are spread over")
			sizeFlag(fs, &o.Size, 256<<10, "length of a message in bytes")
			timeFlag(fs, &o.Time, 5*time.Second, "how long to measure")
		},
		run: single(bench.RunFairness),
		line: func(r bench.FairRow) string {
			return fmt.Sprintf("# weft bench %s: %d processes, messages of %d bytes, %v\n# %8s %12s %12s %12s %14s\n%10.4f "+
				"%12.2f %12.2f %12.2f %14.2f\n",
				r.Bench, r.Processes, r.Size, o.Time, "jain", "min MB/s", "median MB/s", "max MB/s", "all MB/s",
				r.Jain, r.Least/1e6, r.Median/1e6, r.Most/1e6, r.Total/1e6)
		},
	}.command()
}

func incastBench() *cobra.Command {
	var o bench.IncastOptions
	return benchOf[bench.IncastOptions, bench.IncastRow]{
		o: &o, sealing: &o.Sealing, name: bench.KindIncast,
		short: "Measure what many senders of long messages do to one receiver, and to its short messages",
		long: `Measure what many senders of long messages do to one receiver, and to its short messages.

Each sender has a NIC of its own; all are in one program, the receiver in another, and short messages come from a third.
All goes over UDP on loopback. Half of the time the senders rest, so that the short messages can be compared.`,
		self: &o.Self,
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Senders, "senders", 15, 1, 64, "how many send long messages")
			sizeFlag(fs, &o.Size, 1<<20, "length of a long message in bytes")
			timeFlag(fs, &o.Time, 5*time.Second, "how long to measure")
		},
		run: single(bench.RunIncast),
		line: func(r bench.IncastRow) string {
			return fmt.Sprintf("# weft bench %s: %d senders, messages of %d bytes, %v\n# %8s %12s %8s %11s %11s %11s "+
				"%11s\n%10d %12.2f %8.4f %11.2f %11.2f %11.2f %11.2f\n",
				r.Bench, r.Senders, r.Size, o.Time, "drops", "MB/s", "jain", "small p50", "small p99", "alone p50",
				"alone p99",
				r.Drops, r.Rate/1e6, r.Jain, us(r.Small), us(r.Small99), us(r.Alone), us(r.Alone99))
		},
	}.command()
}

// groupBench returns the command weft bench barrier, broadcast or allreduce.
func groupBench(kind, short string) *cobra.Command {
	o := bench.GroupOptions{Kind: kind, Sizes: []int{64}}
	if kind == bench.KindBarrier {
		o.Sizes[0] = 0
	}
	return benchOf[bench.GroupOptions, bench.GroupRow]{
		o: &o, sealing: &o.Sealing, name: kind, short: short, long: short + `.

The members are in one program, each with a NIC of its own. What is measured is how long the operation takes at
rank 0. With --json, each size is one object on a line of its own.`, each: "size",
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Members, "members", 4, 1, 64, "how many members, each on a NIC of its own")
			choiceFlag(fs, &o.Link, "link", bench.LinkUDP, bench.Links(), "what carries the frames")
			timeFlag(fs, &o.Time, 5*time.Second, "how long to measure each size")
			into := &o.Sizes
			if kind == bench.KindBarrier {
				into = &[]int{0}
			}
			sizesFlag(fs, into, 0, bench.MaxSize,
				"length of the data in bytes, of which a barrier has none; all: 1 B to 4 MiB, in powers of four")
		},
		run: bench.RunGroup,
		head: func() string {
			return fmt.Sprintf("# weft bench %s: %d members, link %s, %v for each size\n# %8s %12s %11s %11s %11s\n",
				kind, o.Members, o.Link, o.Time, "bytes", "iterations", "p50 µs", "p99 µs", "p99.9 µs")
		},
		line: func(r bench.GroupRow) string {
			return fmt.Sprintf("%10d %12d %11.2f %11.2f %11.2f\n",
				r.Size, r.Iterations, us(r.P50), us(r.P99), us(r.P999))
		},
	}.command()
}

func limitsBench() *cobra.Command {
	var o bench.LimitsOptions
	return benchOf[bench.LimitsOptions, bench.LimitRow]{
		o: &o, name: bench.KindLimits,
		short: "Measure what this machine allows, with bare programs that do nothing else",
		long: `Measures what this machine allows: for each way that Weft goes, the barest program
that goes the same way. What goes over a network runs on two hosts that are made for
the time of the measurement (needs root; left out without).

All are measured in each round; what is printed is the median of the rounds.

` + limitNames(), each: "limit and size",
		self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			timeFlag(fs, &o.Time, time.Second, "how long to measure each limit and size")
			intFlag(fs, &o.Rounds, "rounds", 5, 1, 1000, "rounds in which that time is spent")
			mtuFlag(fs, &o.MTU)
			wordsFlag(fs, &o.Names, "only", "NAME,…", bench.LimitNames(), "only these limits")
		},
		check: func(c *cobra.Command, _ []string) error {
			o.Missing = func(name string, why error) {
				fmt.Fprintf(c.ErrOrStderr(), "weft: left out: %s: %v\n", name, why)
			}
			if err := bench.CheckRounds(o.Time, o.Rounds); err != nil {
				return &exitError{exitUsage, err}
			}
			return nil
		},
		run: bench.RunLimits,
		head: func() string {
			return fmt.Sprintf("# weft bench limits: medians of %d rounds, %v for each size\n# %16s %9s %17s\n",
				o.Rounds, o.Time, "limit", "bytes", "")
		},
		line: func(r bench.LimitRow) string {
			return fmt.Sprintf("%18s %9d %-18s  %s\n", r.Limit, r.Size, r.Figure(), bench.LimitMeans(r.Limit))
		},
	}.command()
}

func hostileBench() *cobra.Command {
	var o bench.HostileOptions
	return benchOf[bench.HostileOptions, bench.HostileRow]{
		o: &o, sealing: &o.Sealing, name: "hostile",
		short: "Set hostile processes on a NIC daemon and measure what it costs the others",
		long: `Starts a NIC daemon and processes that exchange messages by it, each of which is
checked, and sets processes on them that misbehave in every way that a process can.
The time of round trips is compared with that beside as many processes that only
burn the processor, in turns. The status is 1 if a message was lost, doubled or
altered, if the daemon ended, did not name an offender, or holds anything when all
have gone, or if a round trip took more than ` + fmt.Sprint(bench.HostileBound) + ` times as long (median).

` + hostileKinds(), each: "kind",
		self: &o.Self,
		flags: func(fs *pflag.FlagSet) {
			durationFlag(fs, &o.Time, "time", time.Minute, 100*time.Millisecond, 24*time.Hour,
				"how long to measure, all kinds together")
			intFlag(fs, &o.Each, "each", 2, 1, 64, "how many processes of one kind at a time")
			seedFlag(fs, &o.Seed, "seed", 1, "what they draw from")
			wordsFlag(fs, &o.Kinds, "kinds", "KIND,…", append(hostile.Kinds(), "all"),
				"only these ways to misbehave; all is all at once")
		},
		run: bench.RunHostile,
		head: func() string {
			return fmt.Sprintf("# weft bench hostile: round trips beside hostile processes, and beside busy ones; %v in "+
				"all\n# %10s %9s %10s %10s %10s %10s %6s %9s %9s %9s\n",
				o.Time, "kind", "exchanges", "p50 µs", "p99 µs", "busy p50", "busy p99", "ratio", "attached", "refused",
				"thrown out")
		},
		line: func(r bench.HostileRow) string {
			line := fmt.Sprintf("%12s %9d %10.1f %10.1f %10.1f %10.1f %6.2f %9d %9d %9d\n", r.Kind, r.Exchanges,
				us(r.P50), us(r.P99), us(r.BesideP50), us(r.BesideP99), r.Ratio, r.Attached, r.Refused, r.ThrownOut)
			if r.Named != "" {
				line += fmt.Sprintf("#   %s\n", r.Named)
			}
			return line
		},
	}.command()
}

func limitNames() string {
	var b strings.Builder
	for _, name := range bench.LimitNames() {
		fmt.Fprintf(&b, "  %-18s %s\n", name, bench.LimitMeans(name))
	}
	return b.String()
}

func hostileKinds() string {
	var b strings.Builder
	for _, k := range hostile.Kinds() {
		fmt.Fprintf(&b, "  %-12s %s\n", k, hostile.What(k))
	}
	return b.String()
}
