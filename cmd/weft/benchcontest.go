package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

// contestFlags are the flags of weft bench contended and weft bench streams.
type contestFlags struct {
	bench.ContestOptions
	seal    sealedFlags
	testbed string
}

// contendedBench returns the command weft bench contended.
func contendedBench() *cobra.Command {
	f := &contestFlags{ContestOptions: bench.ContestOptions{Kind: bench.KindContended, Over: bench.CarriedBy(),
		Deployments: []string{bench.DeployedEmbedded}, Against: []string{bench.AgainstTCP}}}
	return f.command("Compare Weft with TCP while other programs compute",
		`Measures round trips and one-way writes while other programs compute on all processors, as on a
machine that several services share. Weft and TCP take turns. Each does the same work in two
processes of its own.`, func(fs *pflag.FlagSet) {
			intFlag(fs, &f.Hogs, "hogs", runtime.NumCPU(), 0, 1024,
				"run N computing programs, each on one processor")
			wordsFlag(fs, &f.Over, "over", "CARRIER,…", bench.CarriedBy(),
				"carry the bytes by messages (calls, in round trips) or streams")
			f.counts(fs, "streams", "1", "use these numbers of concurrent connections or messages")
			f.sizes(fs, "64,64KiB,1MiB")
		}, `  weft bench contended --hogs 2
  weft bench contended --hogs 2 --size 1MiB --streams 16 --over stream --json
  weft bench contended --deployment daemon --against tcp,tls`)
}

// streamsBench returns the command weft bench streams.
func streamsBench() *cobra.Command {
	f := &contestFlags{ContestOptions: bench.ContestOptions{Kind: bench.KindStreams,
		Over:        []string{bench.CarriedByStreams},
		Deployments: []string{bench.DeployedEmbedded}, Against: []string{bench.AgainstTCP}}}
	return f.command("Compare many concurrent streams with TCP and TLS",
		`Measures round trips and one-way writes over many concurrent streams. Streams and TCP take
turns. Each does the same work in two processes of its own.`, func(fs *pflag.FlagSet) {
			f.counts(fs, "count", "1,4,16,64", "use these numbers of concurrent streams")
			f.sizes(fs, "1KiB,64KiB,1MiB")
		}, `  weft bench streams
  weft bench streams --count 1,64 --size 64KiB --against tcp,tls --json`)
}

// command makes the command. flags defines the flags that only one of the two commands has.
func (f *contestFlags) command(short, long string, flags func(*pflag.FlagSet), example string) *cobra.Command {
	return benchOf[bench.ContestOptions, bench.ContestRow]{
		o: &f.ContestOptions, name: f.Kind, short: short, example: example,
		long: long + `

With --testbed veth, each side is on its own host, and a cable joins the two. The hosts are
network namespaces, which exist for the measurement only (needs root). --against tcp compares
plain links with TCP, and --against tls compares sealed links with TLS of Go. In both cases,
the fields of the other contestant are named tcp.

A row has the round trips of all rounds, and the median of the rounds' bytes per second. Its
ratios are medians of the rounds' ratios.`,
		each: "case", self: &f.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			flags(fs)
			wordsFlag(fs, &f.Deployments, "deployment", "WHERE,…",
				[]string{bench.DeployedEmbedded, bench.DeployedDaemon},
				"run the NICs in the processes or in daemons")
			wordsFlag(fs, &f.Against, "against", "WHAT,…", bench.ContestAgainst(), "compare with these contestants")
			choiceFlag(fs, &f.testbed, "testbed", testbedVeth, []string{testbedLoopback, testbedVeth},
				"run the two sides on this host, or on two hosts of a testbed")
			choiceFlag(fs, &f.Link, "link", bench.LinkUDP, []string{bench.LinkUDP, bench.LinkXDP},
				"carry Weft's frames over this link")
			timeFlag(fs, &f.Time, 4*time.Second, "measure each case for this time")
			intFlag(fs, &f.Rounds, "rounds", 5, 1, 1000, "take turns N times, and print medians")
		},
		check: f.check, run: f.run, head: f.head, line: contestLine,
	}.command()
}

// counts defines the flag for the number of concurrent connections.
func (f *contestFlags) counts(fs *pflag.FlagSet, name, value, usage string) {
	listFlag(fs, &f.Streams, name, value,
		"whole numbers from 1 to "+strconv.Itoa(bench.MostCarried), func(s string) (int, bool) {
			n, err := strconv.Atoi(s)
			return n, err == nil && n >= 1 && n <= bench.MostCarried
		}, usage)
}

// sizes defines the flag for the lengths of messages and writes.
func (f *contestFlags) sizes(fs *pflag.FlagSet, value string) {
	listFlag(fs, &f.Sizes, "size", value,
		"numbers of bytes from 1 to "+strconv.Itoa(bench.MaxSize)+", such as 64, 4KiB or 1MiB",
		func(s string) (int, bool) {
			sizes, ok := bench.ParseSizes(s)
			return first(sizes), ok && len(sizes) == 1 && sizes[0] >= 1
		}, "send messages of these lengths each way, or writes")
}

func first(l []int) int {
	if len(l) == 0 {
		return 0
	}
	return l[0]
}

func (f *contestFlags) check(*cobra.Command, []string) error {
	if f.Link == bench.LinkXDP && f.testbed != testbedVeth {
		return usagef(
			"--link xdp on this host: expected --testbed veth, since AF_XDP joins hosts by their network interfaces")
	}
	if err := f.Check(); err != nil {
		return &exitError{exitUsage, err}
	}
	f.Veth = f.testbed == testbedVeth
	f.seal.links = sealedOn // the programs may need a key, and get their own
	return nil
}

func (f *contestFlags) run(ctx context.Context, o bench.ContestOptions, row func(bench.ContestRow) error) error {
	return f.seal.withKey(func() error {
		o.Fabric = f.seal.fabric
		return bench.RunContest(ctx, o, row)
	})
}

func (f *contestFlags) head() string {
	where := "two processes on this host"
	if f.Veth {
		where = "two hosts of a testbed"
	}
	return fmt.Sprintf("# weft bench %s: link %s, %s, %d programs compute; %v for each case, medians of %d rounds\n# "+
		"%-8s %-9s %-7s %7s %8s  %22s %22s %22s\n",
		f.Kind, f.Link, where, f.Hogs, f.Time, f.Rounds, "over", "NICs", "against", "streams", "bytes",
		"p50 µs, other, ratio", "p99 µs, other, ratio", "MB/s, other, ratio")
}

// contestLine formats a row for people.
func contestLine(r bench.ContestRow) string {
	mb := func(x float64) float64 { return x / 1e6 }
	return fmt.Sprintf("%-10s %-9s %-7s %7d %8d  %8.1f %7.1f %5.2f  %8.1f %7.1f %5.2f  %8.1f %7.1f %5.2f\n",
		r.Over, r.Deployment, r.Against, r.Streams, r.Size,
		us(r.P50), us(r.TCPP50), r.RatioP50, us(r.P99), us(r.TCPP99), r.RatioP99, mb(r.Bytes), mb(r.TCPBytes),
		r.RatioBytes)
}
