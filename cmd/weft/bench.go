package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/testbed"
)

func init() { register(newBenchCommand) }

// Values of --testbed: where the two sides of a measurement are.
const (
	testbedLoopback = "loopback"
	testbedVeth     = "veth"
)

// benchFlags are the flags and the argument of `weft bench KIND`.
type benchFlags struct {
	bench.Options
	kind   bench.Kind
	serve  bool
	child  bool
	listen string

	seal    sealedFlags
	testbed string
	against string
	hdr     string
}

func newBenchCommand() *cobra.Command {
	var all []*cobra.Command
	for _, k := range bench.Kinds() {
		all = append(all, newBenchKind(k))
	}
	all = append(all, machineBenches()...)
	return newGroup("bench", "Measure latency, rate and bandwidth",
		append(all, lossBench(), idleBench(), pollBench(), fairnessBench(), incastBench(),
			groupBench(bench.KindBarrier, "Measure barriers of a group"),
			groupBench(bench.KindBroadcast, "Measure broadcasts to a group"),
			groupBench(bench.KindAllReduce, "Measure reductions whose result every member gets"),
			limitsBench(), hostileBench(), newBenchProgram(), vmBench(), netstarBench(), parallelBench(),
			contendedBench(), streamsBench(),
			copiesBench(), pagesBench(bench.KindPageIn, "Measure reading pages of network memory"),
			pagesBench(bench.KindPageOut, "Measure writing pages of network memory"))...)
}

func newBenchKind(k bench.Kind) *cobra.Command {
	f := &benchFlags{Options: bench.Options{Kind: k.Name}, kind: k}
	return benchOf[bench.Options, bench.Row]{
		o: &f.Options, name: k.Name, short: k.Short, long: k.Short + `.

Without HOST, the command starts the other process on this host. With --link mem, one process
has both sides. With HOST, the other side is a weft bench --serve on that host. HOST is an
address or a name, and needs a port unless the port is ` + strconv.Itoa(bench.DefaultPort) + `.

With --testbed veth, each side is on its own host, and a cable joins the two. The hosts are
network namespaces, which exist for the measurement only (needs root). There --loss P drops
packets, each way, with probability P.

Links are plain unless --sealed says otherwise. With --sealed on,off, sealed and plain links
take turns. The rows of sealed links show the time that sealing adds to a round trip, and the
ratio of their figure to that of plain links.

With --against limit, Weft takes turns with the limit: a bare program that moves the same bytes
the same way, and seals them if Weft does. The printed ratio is Weft's figure divided by that
of the limit, as the median of the rounds. Each side then has its own processors, like a host.
--apart=false leaves the processors to the kernel. --apart separates them without a limit.

With --deployment daemon, each side starts its own NIC daemon for the measurement. With
--deployment shared, both sides share one daemon. One-way messages longer than ` +
			strconv.Itoa(limits.CopiedMessage) + ` bytes are
in regions (Process.Alloc), which a daemon accesses without a copy. With --json, each size is
one object on a line of its own.`,
		example: fmt.Sprintf(`  weft bench %[1]s --link udp
  weft bench %[1]s --size all --time 1s --json
  weft bench %[1]s --testbed veth --link xdp --against limit
  weft bench %[1]s --serve              # on one host, and on the other:
  weft bench %[1]s 10.0.0.1`, k.Name),
		each: "size", self: &f.Self, use: " [HOST]", argument: cobra.MaximumNArgs(1), flags: f.define,
		check: f.complete, instead: f.side, spoilt: true,
		run: f.run, head: f.Head, line: bench.Lines(k.Name),
	}.command()
}

func (f *benchFlags) define(fs *pflag.FlagSet) {
	choiceFlag(fs, &f.Link, "link", bench.LinkUDP, bench.Links(), "carry frames over this link")
	choiceFlag(fs, &f.Deployment, "deployment", bench.DeployedEmbedded, bench.Deployments(),
		"run the NICs in the processes, in one daemon for each side, or in one daemon for both sides")
	f.Sizes = []int{f.kind.Size}
	sizesFlag(fs, &f.Sizes, f.kind.Least, f.kind.Most,
		"send messages of N bytes; all: 1 B to 4 MiB, in powers of four")
	timeFlag(fs, &f.Time, 5*time.Second, "measure each size for this time")
	fs.BoolVar(&f.serve, "serve", false, "serve clients on other hosts until interrupted")
	fs.StringVar(&f.listen, "listen", ":"+strconv.Itoa(bench.DefaultPort), "with --serve: listen at `IP:PORT`")
	choiceFlag(fs, &f.testbed, "testbed", testbedLoopback, []string{testbedLoopback, testbedVeth},
		"run the two sides on this host, or on two hosts of a testbed")
	f.seal.define(fs, "on,off measures both in turns, and prints the cost of sealing")
	shareFlag(fs, &f.Loss, "loss", "with --testbed veth: drop this share of packets, each way")
	mtuFlag(fs, &f.MTU)
	choiceFlag(fs, &f.against, "against", "", []string{"limit"},
		"compare with the limit, in turns")
	fs.BoolVar(&f.Apart, "apart", false,
		"give each side its own processors; --against limit implies it")
	intFlag(fs, &f.Rounds, "rounds", 9, 1, 1000, "take turns N times, and print medians")
	if f.kind.Trips {
		hdrFlag(fs, &f.hdr)
	}
	fs.BoolVar(&f.child, "child", false,
		"be a side of a measurement that another weft makes, and end with standard input")
}

func mtuFlag(fs *pflag.FlagSet, p *int) {
	intFlag(fs, p, "mtu", testbed.DefaultMTU, testbed.LeastMTU, testbed.MostMTU,
		"set the MTU of the testbed's cable, in bytes")
}

// complete takes the argument and checks the combinations of flags.
func (f *benchFlags) complete(c *cobra.Command, args []string) (err error) {
	fs, shared := c.Flags(), f.Deployment == bench.DeployedShared
	switch {
	case shared && fs.Changed("link"):
		return usagef("--deployment shared with --link %s: expected no link, since both processes have the same NIC",
			f.Link)
	case shared && !f.child && (f.serve || len(args) > 0):
		return usagef(
			"--deployment shared with --serve or a host: expected neither, since both processes have the same NIC")
	case shared && f.testbed == testbedVeth:
		return usagef("--deployment shared with --testbed veth: expected one or the other, " +
			"since both processes have the same NIC")
	case f.serve && len(args) > 0:
		return usagef("a host (%s) with --serve: expected one or the other", args[0])
	case f.serve && !f.child && bench.Reaches(f.Link) != "":
		return usagef("--serve with --link %s: expected --link udp, since %s", f.Link, bench.Reaches(f.Link))
	case f.testbed == testbedVeth && (f.serve || len(args) > 0):
		return usagef("--testbed veth with --serve or a host: expected neither, since it makes both hosts")
	case f.testbed == testbedVeth && bench.Reaches(f.Link) != "":
		return usagef("--testbed veth with --link %s: expected udp or xdp, since %s", f.Link, bench.Reaches(f.Link))
	case f.Link == bench.LinkXDP && f.testbed != testbedVeth && !f.serve && len(args) == 0:
		return usagef("--link xdp on this host: expected --testbed veth, --serve or a host, " +
			"since AF_XDP joins hosts by their network interfaces")
	case f.testbed != testbedVeth && (fs.Changed("loss") || fs.Changed("mtu")):
		return usagef("--loss or --mtu without --testbed veth: expected --testbed veth, too, " +
			"since only the cable of a testbed has a loss and an MTU")
	case f.Apart && (f.serve || len(args) > 0):
		return usagef("--apart with --serve or a host: expected neither, since this command must start both sides")
	case f.serve && f.against != "":
		return usagef("--serve with --against: expected one or the other, since the client compares")
	case fs.Changed("rounds") && f.against == "" && f.seal.links != sealedBoth:
		return usagef("--rounds without --against or --sealed on,off: expected one of these, too, since otherwise " +
			"nothing takes turns")
	case f.serve && f.seal.links == sealedBoth:
		return usagef("--serve with --sealed on,off: expected the client's choice, on or off")
	case f.hdr != "" && f.seal.links == sealedBoth:
		return usagef("--hdr with --sealed on,off: expected on or off, since the file is for one kind of link")
	case f.Loss == 1:
		return usagef("--loss 100%%: expected less, since no packet would arrive")
	case f.hdr != "" && (f.serve || len(f.Sizes) > 1):
		return usagef("--hdr with --serve or several sizes: expected a client, and one size")
	case f.serve && (fs.Changed("json") || fs.Changed("size") || fs.Changed("time")):
		return usagef("--serve with --json, --size or --time: expected none of them, since the client " +
			"chooses what to measure, and prints it")
	case !f.serve && fs.Changed("listen"):
		return usagef("--listen %s without --serve: expected both, since only --serve listens", f.listen)
	}
	if shared {
		f.Link = bench.LinkNone
	}
	f.Started = f.child && len(args) > 0
	f.Sealing, f.BothLinks = f.seal.sealing(f.seal.links), f.seal.links == sealedBoth
	f.Veth, f.Lossy, f.Against = f.testbed == testbedVeth, fs.Changed("loss"), f.against != ""
	if !fs.Changed("apart") {
		// the limit's programs are apart, and so are two hosts
		f.Apart = f.Against || f.seal.links == sealedBoth
	}
	if f.Started && bench.Reaches(f.Link) != "" {
		f.Host = args[0]
		return nil
	}
	if len(args) > 0 {
		if f.Host, err = hostPort(args[0]); err != nil {
			return usagef("host %q: %w; expected an address or a name, such as 10.0.0.1 or 10.0.0.1:%d",
				args[0], err, bench.DefaultPort)
		}
	}
	if err := f.Check(); err != nil {
		return &exitError{exitUsage, err}
	}
	f.HDR, err = writeHDR(f.hdr)
	return err
}

// run makes the measurement. The programs on this host use a fabric key made for the
// measurement. Programs on another host use the user's key.
func (f *benchFlags) run(ctx context.Context, o bench.Options, row func(bench.Row) error) error {
	if o.Host != "" {
		return bench.Run(ctx, o, row)
	}
	return f.seal.withKey(func() error {
		o.Fabric = f.seal.fabric
		return bench.Run(ctx, o, row)
	})
}

// hostPort returns the address of a host that may lack the port, or be a name.
func hostPort(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = s, strconv.Itoa(bench.DefaultPort)
	}
	a, err := net.ResolveUDPAddr("udp", net.JoinHostPort(host, port))
	if err != nil {
		return "", err
	}
	if a.IP == nil || a.Port == 0 {
		return "", fmt.Errorf("the host or the port is missing")
	}
	return a.String(), nil
}

// side runs the program as the other side, or as a process that another weft has started. It
// reports false if the program is to measure instead.
func (f *benchFlags) side(c *cobra.Command) (is bool, err error) {
	ctx, out := c.Context(), c.OutOrStdout()
	switch {
	case !f.serve && f.child:
		return true, bench.Answer(ctx, f.Options, c.InOrStdin(), out)
	case !f.serve:
		return false, nil
	case f.child:
		ctx = bench.EndWithInput(ctx, c.InOrStdin())
	}
	return true, bench.ServeHost(ctx, f.Options, f.listen, func(addr string) (err error) {
		if f.child {
			_, err = fmt.Fprintln(out, addr)
			return err
		}
		_, port, _ := net.SplitHostPort(addr)
		_, err = fmt.Fprintf(out, "Serving at %s until interrupted. On the other host: weft bench %s THIS-HOST:%s\n",
			addr, f.Kind, port)
		return err
	})
}
