package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weftnet/weft/internal/bench"
)

const pagesLong = `.

The page server is another program on this host, with its own NIC.`

func pagesLinkFlag(fs *pflag.FlagSet, o *bench.PagesOptions) {
	choiceFlag(fs, &o.Link, "link", bench.LinkUDP, []string{bench.LinkUDP, bench.LinkShm},
		"carry frames over this link")
}

// pagesBench returns the command weft bench pagein or pageout.
func pagesBench(kind, short string) *cobra.Command {
	o := bench.PagesOptions{Kind: kind}
	var page int64
	var where string
	return benchOf[bench.PagesOptions, bench.PagesRow]{
		o: &o, sealing: &o.Sealing, name: kind, short: short, long: short + pagesLong + ` With --testbed veth, each
of the two is on its own host of a testbed (needs root).`, self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) {
			pagesLinkFlag(fs, &o)
			bytesFlag(fs, &page, "page", 4096, 4096, "set the size of a page: 4KiB or 8KiB")
			intFlag(fs, &o.Depth, "depth", 1, 1, 256, "keep N pages in flight")
			timeFlag(fs, &o.Time, 5*time.Second, "measure for this time")
			choiceFlag(fs, &where, "testbed", testbedLoopback, []string{testbedLoopback, testbedVeth},
				"run the two sides on this host, or on two hosts of a testbed")
		},
		check: func(*cobra.Command, []string) error {
			o.Page, o.Veth = int(page), where == testbedVeth
			switch {
			case page > 8192:
				return usagef("--page is %d: expected 4096 or 8192", page)
			case o.Veth && o.Link != bench.LinkUDP:
				return usagef("--testbed veth with --link %s: expected udp, since %s", o.Link, bench.Reaches(o.Link))
			}
			return nil
		},
		run: single(bench.RunPages),
		line: func(r bench.PagesRow) string {
			return fmt.Sprintf("# weft bench %s: link %s, pages of %d bytes, %d at a time\n"+
				"# %10s %12s %12s %15s %8s\n%12.2f %12.2f %12.0f %15.2f %8.2f\n",
				r.Bench, r.Link, r.Page, r.Depth, "p50 µs", "p99 µs", "pages/s", "call p50 µs", "ratio", us(r.P50),
				us(r.P99), r.Rate, us(r.Call), r.Ratio)
		},
	}.command()
}

// copiesBench returns the command weft bench pages.
func copiesBench() *cobra.Command {
	const short = "Count how often pages of network memory are copied"
	o := bench.PagesOptions{Kind: bench.KindPages}
	return benchOf[bench.PagesOptions, bench.CopiesRow]{
		o: &o, sealing: &o.Sealing, name: bench.KindPages, short: short, long: short + pagesLong, each: "scenario",
		self: &o.Self, spoilt: true,
		flags: func(fs *pflag.FlagSet) { pagesLinkFlag(fs, &o) },
		run:   bench.RunCopies,
		head: func() string {
			return fmt.Sprintf("# weft bench %s: link %s\n# %-12s %16s %12s\n",
				bench.KindPages, o.Link, "scenario", "copies of a page", "p50 µs")
		},
		line: func(r bench.CopiesRow) string {
			return fmt.Sprintf("%-14s %16.3f %12.2f\n", r.Scenario, r.Copies, us(r.P50))
		},
	}.command()
}
