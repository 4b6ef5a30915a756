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
		long: `Measures a stream between two hosts whose network loses packets, each way. For comparison, it
measures the same stream, with the same programs attached, between two hosts without loss. It
also measures round trips of 64 bytes with the loss. The hosts are network namespaces (needs
root), and each has half of the processors.`,
		self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			choiceFlag(fs, &o.Link, "link", bench.LinkUDP, []string{bench.LinkUDP, bench.LinkXDP},
				"carry frames over this link")
			choiceFlag(fs, &o.Deployment, "deployment", bench.DeployedEmbedded,
				[]string{bench.DeployedEmbedded, bench.DeployedDaemon},
				"run the NICs in the processes or in daemons")
			choiceFlag(fs, &on, "testbed", testbedVeth, []string{testbedVeth},
				"run the two sides on hosts of a testbed")
			shareFlag(fs, &o.Loss, "loss", "drop this share of packets, each way (default 1%)")
			mtuFlag(fs, &o.MTU)
			sizeFlag(fs, &o.Size, 1<<20, "stream messages of N bytes")
			timeFlag(fs, &o.Time, 5*time.Second, "measure each of the three for this time")
			intFlag(fs, &o.Rounds, "rounds", 50, 1, 1000, "take turns N times")
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
			return fmt.Sprintf("# weft bench %s: link %s, %s, messages of %d bytes, %.2f %% lost each way\n"+
				"# %10s %12s %14s %11s %11s %11s %11s\n%12.2f %12.2f %14.3f %11.2f %11.2f %11.2f %11.2f\n",
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
		short: "Measure the processor time of an idle NIC daemon and its processes", self: &o.Self,
		spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Processes, "processes", 128, 1, 1024, "attach N processes")
			intFlag(fs, &o.Programs, "programs", 4, 1, 128,
				"spread them over N programs, or over fewer if there are fewer processes")
			timeFlag(fs, &o.Time, 5*time.Second, "measure for this time")
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
			return fmt.Sprintf("# weft bench %s: %d processes that wait, %.1f s\n# %10s %12s %12s   %% of a core\n"+
				"%12.4f %12.4f %12.4f\n",
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
			numbersFlag(fs, &o.Processes, "processes", 1, 4096, "whole numbers",
				"poll with these numbers of idle processes")
			timeFlag(fs, &o.Time, time.Second, "measure each number for this time")
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

The command starts two NIC daemons on this host, and programs with --processes attached
processes in all. Each process sends as fast as it can to its neighbor on the same NIC and to a
receiver on the other, and receives from its other neighbor. The result is Jain's index of the
bytes per second that each process sent and received: 1 if all are equal.`,
		self: &o.Self,
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Processes, "processes", 256, 2, 1024, "attach N processes in all")
			intFlag(fs, &o.Programs, "programs", 4, 1, 64, "spread them over N programs")
			sizeFlag(fs, &o.Size, 256<<10, "send messages of N bytes")
			timeFlag(fs, &o.Time, 5*time.Second, "measure for this time")
		},
		run: single(bench.RunFairness),
		line: func(r bench.FairRow) string {
			return fmt.Sprintf("# weft bench %s: %d processes, messages of %d bytes, %v\n# %8s %12s %12s %12s %14s\n"+
				"%10.4f %12.2f %12.2f %12.2f %14.2f\n",
				r.Bench, r.Processes, r.Size, o.Time, "jain", "min MB/s", "median MB/s", "max MB/s", "all MB/s",
				r.Jain, r.Least/1e6, r.Median/1e6, r.Most/1e6, r.Total/1e6)
		},
	}.command()
}

func incastBench() *cobra.Command {
	var o bench.IncastOptions
	return benchOf[bench.IncastOptions, bench.IncastRow]{
		o: &o, sealing: &o.Sealing, name: bench.KindIncast,
		short: "Measure the effect of many senders of long messages on one receiver",
		long: `Measure the effect of many senders of long messages on one receiver, and on its short messages.

Each sender has its own NIC. All senders are in one program, the receiver is in another, and a
third program sends short messages. All frames use UDP on loopback. Half of the time the
senders pause, to measure the short messages without them.`,
		self: &o.Self,
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Senders, "senders", 15, 1, 64, "run N senders of long messages")
			sizeFlag(fs, &o.Size, 1<<20, "send long messages of N bytes")
			timeFlag(fs, &o.Time, 5*time.Second, "measure for this time")
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

The members are in one program, each with its own NIC. The result is the time of the operation
at rank 0. With --json, each size is one object on a line of its own.`, each: "size",
		flags: func(fs *pflag.FlagSet) {
			intFlag(fs, &o.Members, "members", 4, 1, 64, "run N members, each with its own NIC")
			choiceFlag(fs, &o.Link, "link", bench.LinkUDP, bench.Links(), "carry frames over this link")
			timeFlag(fs, &o.Time, 5*time.Second, "measure each size for this time")
			into := &o.Sizes
			if kind == bench.KindBarrier {
				into = &[]int{0}
			}
			sizesFlag(fs, into, 0, bench.MaxSize,
				"use N bytes of data; all: 1 B to 4 MiB, in powers of four; a barrier has no data")
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
		short: "Measure the limits of this machine with bare programs that do nothing else",
		long: `Measures the limits of this machine: bare programs that move the same bytes the same way as
Weft, and do nothing else. Limits of a network run on two hosts of a testbed, which need root.
Without root, these limits are skipped.

Each round measures all limits. The command prints the medians of the rounds.

` + limitNames(), each: "limit and size",
		self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			timeFlag(fs, &o.Time, time.Second, "measure each limit and size for this time")
			intFlag(fs, &o.Rounds, "rounds", 5, 1, 1000, "divide that time into N rounds")
			mtuFlag(fs, &o.MTU)
			wordsFlag(fs, &o.Names, "only", "NAME,…", bench.LimitNames(), "measure only these limits")
		},
		check: func(c *cobra.Command, _ []string) error {
			o.Missing = func(name string, why error) {
				fmt.Fprintf(c.ErrOrStderr(), "weft: skipped: %s: %v\n", name, why)
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
		short: "Attack a NIC daemon with hostile processes, and measure the effect on others",
		long: `Starts a NIC daemon and processes that exchange messages through it, and checks each message.
Other processes misbehave in every way that a process can. In turns with them, the same number
of processes only burn processor time, and the command compares the round trips.

The exit status is 1 if a message was lost, duplicated or altered, if the daemon ended, did not
name an offender, or still held resources when all processes had gone, or if the median round
trip took more than ` + fmt.Sprint(bench.HostileBound) + ` times as long.

` + hostileKinds(), each: "kind",
		self: &o.Self,
		flags: func(fs *pflag.FlagSet) {
			durationFlag(fs, &o.Time, "time", time.Minute, 100*time.Millisecond, 24*time.Hour,
				"measure for this time, all kinds together")
			intFlag(fs, &o.Each, "each", 2, 1, 64, "run N concurrent processes of each kind")
			seedFlag(fs, &o.Seed, "seed", 1, "draw the misbehavior from seed N")
			wordsFlag(fs, &o.Kinds, "kinds", "KIND,…", append(hostile.Kinds(), "all"),
				"run only these kinds of misbehavior; all: all kinds at once")
		},
		run: bench.RunHostile,
		head: func() string {
			return fmt.Sprintf("# weft bench hostile: round trips beside hostile processes, and beside busy ones; "+
				"%v in all\n# %10s %9s %10s %10s %10s %10s %6s %9s %9s %9s\n",
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
