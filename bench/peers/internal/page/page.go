package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// Markdown returns the page.
func Markdown(r *contest.Result) []byte {
	var b strings.Builder
	heading(&b, r)
	goals(&b, r)
	for _, ground := range contest.Grounds() {
		table(&b, r, ground)
		if ground == contest.Loss {
			sealed(&b, r)
		}
	}
	notes(&b, r)
	remade(&b)
	return []byte(b.String())
}

func heading(b *strings.Builder, r *contest.Result) {
	m := r.Machine
	fmt.Fprintf(b, `# Weft beside what a user would pick instead

This page is made by a program, of [peers.json](peers.json): do not write here. `+
		`[performance.md](../performance.md) explains how Weft
is measured, and [tried.md](tried.md#figures-recorded-by-hand) has runs against what the ground allows.

| | |
|---|---|
| machine | %s, %d cores, virtual; Linux %s; %s; %s |
| others | %.1f cores were used by others during the run, load %.1f before it: `+
		`the machine is shared, so all figures drift, and only comparisons within this run mean much |
| commit | %s |
| when | %s, %.0f s, %d rounds |
`, m.CPU, m.Cores, m.Kernel, m.OS, m.Go, m.Others, m.Load, r.Commit, r.Date, r.Seconds, r.Rounds)
	laterRuns(b, r)
	if busy(r) {
		b.WriteString("\n**Others worked on this machine meanwhile.** What lets them, " +
			"by yielding or sleeping while it waits, looks slow here, and what spins looks fast, " +
			"or is not done in time. A run on a quiet machine says more.\n")
	}
	b.WriteString(`
In each round each contestant takes its turn once, or three times if it goes over shared memory, ` +
		`for a fraction of a second each figure; ` +
		`what counts is the median of its turns. All do the
same: a message and its echo, one at a time; or messages one way, until the other side has told how many have come. ` +
		`Round trips are timed one by one. Short messages
one way go as each is best at it: Weft is handed 256 at a time and reads an Inbox, ` +
		`ZeroMQ and NATS batch by themselves, ` +
		`UCX and MPI have many under way. A star marks
figures of Aeron, which was **measured elsewhere on a like machine, not in this run**.

**All figures are of plain links**, those of Weft and those that Weft is compared with, unless a dagger (†) marks ` +
		`a contestant that encrypts. Tables and charts of one host and
of two hosts have plain contestants only; the others have a section of their own below. ` +
		`Each row of the JSON says by ` + "`sealed`" + ` which it is.

![Round trips of 64 bytes](round-trip.svg)
`)
}

// pictures lists the pictures below the table of a ground.
var pictures = map[string][]string{
	contest.Host: {"latency-host.svg", "bandwidth-host.svg", "hdr-host.svg"},
	contest.Veth: {"latency-veth.svg", "bandwidth-veth.svg", "hdr-veth.svg"},
	contest.Loss: {"goodput-loss.svg", "p99-loss.svg"},
}

var words = map[string]string{
	contest.Host: "Weft's NICs are embedded in the two processes and joined by shared memory " +
		"(`weft bench … --link shm`). Others use shared memory if they can, and else loopback.",
	contest.Veth: "Two network namespaces with a veth pair between them. " +
		"Weft is `weft bench … --testbed veth --link udp` and `--link xdp`; " +
		"with daemons there are four processes on two cores.",
	contest.Loss: "Between the hosts stands a program that draws for each packet whether it is lost, each way. " +
		"It takes segmentation offload from all of them, also at 0 %. " +
		"A round trip with 1 % loses a packet in two of a hundred cases, " +
		"so the 99th percentile is how long repair takes.",

	contest.Pages: "Two network namespaces with a veth pair between them. One host keeps pages of 4 KiB for the " +
		"other, which reads them at random: one at a time, and with 32 under way. Weft is a client of package " +
		"`netmem` and `weft mem serve`, a copy of each page; beside it stand Weft's calls to a process that answers " +
		"with a page, without a page server. In order, a volume reads ahead.",
	contest.Blocks: "The same hosts. fio reads blocks of 4 KiB at random from a device that it has filled, " +
		"by its engine for NBD: from `weft mem nbd` at a unix socket of its own host, with `weft mem serve` on the " +
		"other, a copy of each page; and from nbdkit's plugin memory on the other host, by TCP. " +
		"A time is from the call that begins a read to its end.",
}

// headings holds the headings of the tables.
var headings = map[string]string{contest.Host: "One host", contest.Veth: "Two hosts",
	contest.Loss:  "Where packets are lost",
	contest.Pages: "Pages that another host keeps", contest.Blocks: "Blocks that another host keeps"}

func table(b *strings.Builder, r *contest.Result, ground string) {
	who := r.Contestants(ground)
	if slices.Contains(sealedGrounds, ground) {
		who = r.PlainContestants(ground)
	}
	if len(who) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n|", headings[ground], words[ground])
	columns := contest.Columns(ground)
	for _, c := range columns {
		fmt.Fprintf(b, " | %s", c.Head)
	}
	fmt.Fprintf(b, " |\n|---%s|\n", strings.Repeat("|---:", len(columns)))
	for _, name := range who {
		fmt.Fprintf(b, "| %s", bold(name, label(r, name)))
		for _, c := range columns {
			fmt.Fprintf(b, " | %s", r.Cell(name, c))
		}
		b.WriteString(" |\n")
	}
	for _, p := range Pictures(r) {
		if slices.Contains(pictures[ground], p.File) {
			fmt.Fprintf(b, "\n![%s](%s)\n", p.Title, p.File)
		}
	}
}

// notes writes how the contestants differ, and which are not available.
func notes(b *strings.Builder, r *contest.Result) {
	b.WriteString("\n## What differs\n\n")
	b.WriteString("- Messages to Weft have a tag and are matched; those of UCX, Open MPI and libfabric as well. " +
		"Sockets, ZeroMQ, NATS, gRPC and QUIC match nothing.\n" +
		"- Each message over Go's TCP, and each over QUIC, is one write. A program that gathers messages in a buffer " +
		"first sends more a second, and makes the first wait for the last. " +
		"ZeroMQ, NATS, gRPC and Weft gather by themselves.\n" +
		"- Contestants with a dagger encrypt. TLS, gRPC and QUIC encrypt a connection in one goroutine; " +
		"wireguard-go encrypts a tunnel in one goroutine for each processor.\n" +
		"- UCX, Open MPI and libfabric spin while they wait; Weft spins where there are processors enough, " +
		"and else yields and sleeps; all others sleep in the kernel.\n" +
		"- NATS carries each message by way of its server.\n")
	var of []string // contestants that have notes
	measures := make(map[string][]string)
	for _, row := range r.Rows {
		what := fmt.Sprintf("%s: %s", row.Contestant, row.Note)
		if row.Note == "" || row.Refused() || slices.Contains(measures[what], row.Measure) {
			continue
		}
		if measures[what] == nil {
			of = append(of, what)
		}
		measures[what] = append(measures[what], row.Measure)
	}
	for _, what := range of {
		fmt.Fprintf(b, "- %s (%s).\n", what, strings.Join(measures[what], ", "))
	}
	b.WriteString(
		"- Aeron's C media driver ran within the loop of its clients; its rate is by publishing in batches.\n")
	for _, s := range r.Refusals() {
		fmt.Fprintf(b, "- %s: %s\n", s.Contestant, s.Why)
	}
	if len(r.Skipped) > 0 {
		b.WriteString("\nNot there:\n\n")
		for _, s := range r.Skipped {
			fmt.Fprintf(b, "- %s: %s.\n", s.Contestant, s.Why)
		}
	}
	if len(r.Failures) > 0 {
		b.WriteString("\nWhat went wrong:\n\n")
		for _, f := range r.Failures {
			where := f.Ground
			if f.Ground == contest.Loss {
				where = fmt.Sprintf("%v %% lost", 100*f.Loss)
			}
			fmt.Fprintf(b, "- %s (%s), round %d: %s.\n", f.Contestant, where, f.Round, f.Why)
		}
	}
}

func remade(b *strings.Builder) {
	b.WriteString("\n## Made again\n\n```\n" +
		"cd bench/peers && go run . --out ../../docs/performance                                      " +
		"# measures, about ten minutes, as root\n" +
		"cd bench/peers && go run . --from ../../docs/performance/peers.json --out ../../docs/performance   " +
		"# draws what was measured\n```\n")
}
