package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

// netstarBench returns the command weft bench netstar.
func netstarBench() *cobra.Command {
	var o bench.NetstarOptions
	var where string
	return benchOf[bench.NetstarOptions, bench.NetstarRow]{
		o: &o, sealing: &o.Sealing, name: bench.KindNetstar,
		short: "Measure the claims of the Net* paper: messages, system calls, copies, timers",
		long: `Measures the claims of the Net* paper for an interface of shared queues (docs/netstar.md):

  messages   echoes and bytes per second over each link, compared with TCP in the same rounds
  calls      system calls of two processes that are attached to a daemon, as the processes
             count them: for single messages, for bursts, and while the NIC is busy
  link       system calls for each message on the links of embedded NICs
  copies     how often each side copies the bytes of a message, counted at the copies
  recovery   the cost of a lost frame, and the number of retransmitted frames; with root,
             also compared with TCP between two hosts whose cable loses frames
  timer      the cost of a timer: of the hotel, of Go's runtime, of the kernel
  tick       the alternative that the paper rejects: a NIC that polls every 10 ms

Comparisons with TCP use loopback, or two hosts of a testbed. With --rate, each rate has its own
pair of hosts, and a token bucket paces their cables. Only messages are measured then.`, each: "figure",
		self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			wordsFlag(fs, &o.Parts, "only", "PART,…", bench.NetstarParts(), "measure only these parts")
			choiceFlag(fs, &where, "testbed", testbedLoopback, []string{testbedLoopback, testbedVeth},
				"run messages and TCP over loopback, or between two hosts of a testbed")
			ratesFlag(fs, &o.Rates,
				"compare messages with TCP over cables of these rates, such as 10,100,155Mbit")
			o.Loss = 0.01
			shareFlag(fs, &o.Loss, "loss", "drop this share of frames, each way (default 1%)")
			timeFlag(fs, &o.Time, time.Second, "measure each figure for this time")
			o.Sizes = []int{64, 4 << 10, 64 << 10, 1 << 20}
			sizesFlag(fs, &o.Sizes, 1, 16<<20, "compare messages of N bytes with TCP")
		},
		check: func(c *cobra.Command, _ []string) error {
			o.Veth = where == testbedVeth
			return checkRates(c, &o)
		},
		run: bench.RunNetstar,
		head: func() string {
			return fmt.Sprintf("# weft bench %s: %v for each figure\n", bench.KindNetstar, o.Time)
		},
		line: netstarLine,
	}.command()
}

// checkRates checks --rate: messages alone are measured over cables with a rate, at lengths that
// such cables carry in time.
func checkRates(c *cobra.Command, o *bench.NetstarOptions) error {
	if len(o.Rates) == 0 {
		return nil
	}
	if c.Flags().Changed("testbed") && !o.Veth {
		return usagef(
			"--rate with --testbed %s: expected --testbed %s or none, since only the cables of a testbed have a rate",
			testbedLoopback, testbedVeth)
	}
	if len(o.Parts) == 0 {
		o.Parts = []string{bench.NetstarMessages}
	}
	for _, part := range o.Parts {
		if part != bench.NetstarMessages {
			return usagef("--rate with --only %s: expected %s alone", part, bench.NetstarMessages)
		}
	}
	if !c.Flags().Changed("size") {
		o.Sizes = []int{64, 1 << 10, 4 << 10, 16 << 10, 64 << 10}
	}
	return nil
}

// netstarLine formats a row for people.
func netstarLine(r bench.NetstarRow) string {
	where := []string{r.What}
	for _, s := range []string{r.Link, r.Deployment, r.How} {
		if s != "" {
			where = append(where, s)
		}
	}
	if r.Rate > 0 {
		where = append(where, rateText(r.Rate))
	}
	if r.Size > 0 {
		where = append(where, fmt.Sprintf("%d bytes", r.Size))
	}
	return fmt.Sprintf("%-52s %s\n", strings.Join(where, ", "), netstarFigures(r))
}

func netstarFigures(r bench.NetstarRow) string {
	switch {
	case r.Beside != nil:
		b := r.Beside
		line := fmt.Sprintf("echo %.2f µs, TCP %.2f µs (%.2f x); %.1f MB/s, TCP %.1f MB/s (%.2f x)",
			us(b.MessageP50), us(b.TCPP50), b.Faster, b.MessageBytes/1e6, b.TCPBytes/1e6, b.More)
		if b.OfRate != nil {
			line += fmt.Sprintf("; %.0f %% of the rate, TCP %.0f %%", 100*b.MessageShare, 100*b.TCPShare)
		}
		return line
	case r.Calls != nil:
		c := r.Calls
		return fmt.Sprintf("system calls: output %.3f a message, %.3f a burst of %d, input %.3f a message; "+
			"%.2f µs until they are there",
			c.Output, c.PerBurst, c.Burst, c.Input, us(c.P50))
	case r.OfLink != nil:
		l := r.OfLink
		return fmt.Sprintf("system calls a message: sender %.3f, receiver %.3f; %.3f staged",
			l.Sender, l.Receiver, l.Staged)
	case r.Copies != nil:
		c := r.Copies
		return fmt.Sprintf("copies of a message: sender %.2f (the process %.2f), receiver %.2f (the process %.2f)",
			c.Sender, c.SenderOwn, c.Receiver, c.ReceiverOwn)
	case r.Recovery != nil:
		c := r.Recovery
		return fmt.Sprintf("%.1f %% lost: p50 %.2f µs (%.2f without), p99 %.2f µs, p99.9 %.2f µs; %d retransmitted, "+
			"%.1f µs later (%.1f without)",
			100*c.Loss, us(c.P50), us(c.CleanP50), us(c.P99), us(c.P999), c.Sent, us(c.Delay), us(c.CleanDelay))
	case r.Timer != nil:
		c := r.Timer
		return fmt.Sprintf("%.1f ns a timer (%.1f x), %.1f ns a look; %d run", c.Each, c.ToHotel, c.Look, c.Running)
	case r.Tick != nil:
		t := r.Tick
		return fmt.Sprintf("found after %.2f µs, by a system call there after %.2f µs (%.0f x)",
			us(t.TickP50), us(t.CallP50), t.Slower)
	case r.Missing != "":
		return "not measured: " + r.Missing
	}
	return ""
}
