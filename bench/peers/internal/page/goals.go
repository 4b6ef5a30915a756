package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// goal is a comparison with the best other that Weft set itself.
type goal struct {
	number  string
	what    string
	weft    string
	than    string // the other; "": the best
	column  contest.Column
	atLeast float64 // Weft's advantage
}

func goalsOf() []goal {
	host, veth := contest.Columns(contest.Host), contest.Columns(contest.Veth)
	return []goal{
		{"P1", "one host, 64 B there and back", "Weft, shm", "", host[0], 1},
		{"P2", "one host, 64 B messages a second", "Weft, shm", "", host[2], 1},
		{"P2", "one host, 1 MiB one way", "Weft, shm", "", host[3], 1},
		{"P3", "two hosts, 64 B there and back, AF_XDP", "Weft, xdp", "", veth[0], 2},
		{"P4", "two hosts, 64 B there and back, UDP", "Weft, udp", "", veth[0], 1},
		{"P5", "two hosts, 64 B messages a second", "Weft, udp", "", veth[2], 4},
		{"P6", "two hosts, 1 MiB one way", "Weft, udp", "", veth[3], 1},
		{"P21", "two hosts, 64 B over a stream and back", "Weft, stream, xdp", "Go net TCP", veth[0], 1 / 0.7},
		{"P21", "two hosts, gRPC, a unary call of 64 B", "Weft, grpc-go, xdp", "grpc-go", veth[0], 1.3},
		{"P21", "two hosts, HTTP, requests a second from 64 connections", "Weft, net/http, xdp", "net/http", veth[2], 1.2},
	}
}

// advantage is how many times as good one figure is as another.
func advantage(measure string, ours, theirs float64) float64 {
	if measure == contest.Latency {
		return theirs / ours
	}
	return ours / theirs
}

// others lists who has a figure in this run and is not Weft.
func others(r *contest.Result, ground string) []string {
	return slices.DeleteFunc(r.Contestants(ground), func(name string) bool { return contest.Weft(name) || r.IsElsewhere(name) })
}

// other returns the one that a goal names, or the best of the others in this run; false if there is none. One that answers requests
// is no rival of one that only sends.
func (g *goal) other(r *contest.Result) (found contest.Row, ok bool) {
	c := g.column
	if g.than != "" {
		return r.Find(g.than, c.Ground, c.Loss, c.Measure, c.Size)
	}
	for _, name := range others(r, c.Ground) {
		row, there := r.Find(name, c.Ground, c.Loss, c.Measure, c.Size)
		if there && row.Value > 0 && (!ok || advantage(c.Measure, row.Value, found.Value) > 1) {
			found, ok = row, true
		}
	}
	return found, ok
}

// verdict says whether a figure that should be at least the goal is.
func verdict(figure, goal float64) string {
	if figure >= goal {
		return "met"
	}
	return fmt.Sprintf("missed by %.0f %%", 100*(1-figure/goal))
}

// goals compares Weft with the best of the others, figure by figure.
func goals(b *strings.Builder, r *contest.Result) {
	missed := make(map[string]bool)
	b.WriteString(`
## Weft and the best of the others

An advantage of 2 means half the time, or twice as much in the same time; below 1, Weft is behind. What goals say of the ground's limits is measured by
` + "`weft bench … --against limit`" + `.

| | what | Weft | the best other | advantage | goal | |
|---|---|---|---|---|---|---|
`)
	for _, g := range goalsOf() {
		ours, ok := r.Find(g.weft, g.column.Ground, 0, g.column.Measure, g.column.Size)
		other, has := g.other(r)
		if !ok || !has || ours.Value <= 0 {
			continue
		}
		a := advantage(g.column.Measure, ours.Value, other.Value)
		missed[g.number] = missed[g.number] || a < g.atLeast
		fmt.Fprintf(b, "| %s | %s | %s | %s, %s | %.2f | ≥ %.3g | %s |\n", g.number, g.what, r.Cell(g.weft, g.column), other.Contestant, r.Cell(other.Contestant, g.column), a, g.atLeast, verdict(a, g.atLeast))
	}
	missed["P9"] = lossGoals(b, r)
	reasons(b, r, missed)
	b.WriteString("\n![Messages of 64 bytes, one way](rate.svg)\n\n![Messages of 1 MiB, one way](bandwidth.svg)\n")
}

// kept is the share of the goodput that a contestant keeps with loss; 0 if that was not measured.
func kept(r *contest.Result, name string, loss float64) float64 {
	clean, ok := r.Find(name, contest.Loss, 0, contest.Bandwidth, contest.LargeSize)
	row, ok2 := r.Find(name, contest.Loss, loss, contest.Bandwidth, contest.LargeSize)
	if !ok || !ok2 || clean.Value <= 0 {
		return 0
	}
	return row.Value / clean.Value
}

// repair is the 99th percentile of round trips with loss, in ns; 0 if that was not measured.
func repair(r *contest.Result, name string, loss float64) float64 {
	row, _ := r.Find(name, contest.Loss, loss, contest.Latency, contest.SmallSize)
	return row.P99
}

// lossGoals are those about what loss costs: goodput by that without loss, and the 99th percentile of round trips. It reports whether
// that of the goodput is missed.
func lossGoals(b *strings.Builder, r *contest.Result) (missed bool) {
	const weft = "Weft, udp"
	for _, g := range []struct{ loss, atLeast float64 }{{0.01, 0.9}, {0.05, 0.75}} {
		ours, most, who := kept(r, weft, g.loss), 0.0, ""
		for _, name := range others(r, contest.Loss) {
			if v := kept(r, name, g.loss); v > most {
				most, who = v, name
			}
		}
		if ours > 0 && most > 0 {
			missed = missed || ours < g.atLeast
			fmt.Fprintf(b, "| P9 | goodput with %v %% of loss, by that without | %.2f | %s, %.2f | %.2f | Weft ≥ %.2f | %s |\n", 100*g.loss, ours, who, most, ours/most, g.atLeast, verdict(ours, g.atLeast))
		}
	}
	const loss, goal = 0.01, 500e3 // ns
	ours, least, who := repair(r, weft, loss), 0.0, ""
	for _, name := range others(r, contest.Loss) {
		if v := repair(r, name, loss); v > 0 && (who == "" || v < least) {
			least, who = v, name
		}
	}
	if ours > 0 && who != "" {
		fmt.Fprintf(b, "| P10 | 64 B there and back with 1 %% of loss, 99 %% | %s | %s, %s | %.0f | Weft ≤ %s | %s |\n", contest.Figure(contest.Latency, ours), who,
			contest.Figure(contest.Latency, least), least/ours, contest.Figure(contest.Latency, goal), verdict(goal, ours))
	}
	return missed
}

// busy reports whether others used so much of the machine that it shows.
func busy(r *contest.Result) bool { return r.Machine.Others > 0.1*float64(r.Machine.Cores) }

// why has what is known of goals that are missed. What is of no use on a quiet machine is said of busy ones only.
var why = []struct {
	goals []string
	busy  bool
	text  string
}{
	{[]string{"P1", "P3", "P4"}, true, "A side of Weft that waits gives its processor to others who want it, and then sleeps. Where others keep one of two processors busy, the kernel wakes both sides on " +
		"the one that is left, and they take turns there: about 6 µs a round trip over shared memory, 14 over AF_XDP, 18 over UDP, which is what `taskset -c 0 weft bench latency …` shows as well. " +
		"On two processors shared memory has 0.27 to 0.7 µs. Who spins never gives a processor up, and so keeps one for itself."},
	{[]string{"P1"}, false, "UCX and Open MPI look for a message from a peer that they know, in memory that they own, with one thread that does nothing else. A message of Weft's passes " +
		"two processes of a name each that any number of goroutines may use, a NIC that any number of processes share, credit, and a wait that ends with its peer's death: some 55 ns of computing " +
		"each way, where it was 500. Where the two processors share a cache, so that `line` takes 0.14 µs, Weft has 0.27 to 0.35 µs, and Open MPI and UCX 0.34 to 0.45; where they are far apart, and " +
		"`line` takes 0.55, most is the way of two lines, and Weft has 0.7, Open MPI 1.2 and UCX 1.4. The machine changes between the two from second to second, and each has its own share of either."},
	{[]string{"P2"}, false, "Where 1 MiB is what is missed: Weft copies twice, into the ring and out of it, as the limit `stream` does. Open MPI and UCX may read the sender's memory through the kernel, " +
		"one copy, which asks for the right to trace it. Where the two processors are far apart, so that `line` takes 0.5 µs, two copies through memory that both have in their caches come to 2 to 5 GB/s, the limit's to 4 to 5; " +
		"where they are near, to 35; Weft, which writes past the caches where that is faster, has 13 to 15 and 21 to 27. The machine changes between the two from minute to minute."},
	{[]string{"P3"}, false, "Half of a round trip is the kernel's: a bare AF_XDP program takes 4.5 to 6 µs of it. Of the rest each side of Weft computes some 0.5 µs, where it was 1."},
	{[]string{"P5"}, false, "As many as the bare program `udp-rate` sends, 0.9 to 1.3 of it: 15 to 20 M/s where that has 15 or more, 7 to 12 in hours in which the machine has half of its kernel's speed. " +
		"And so many times the best other as that has had a good round or a bad one: 2.6 to 5.4 in nine runs."},
	{[]string{"P6"}, false, "TCP hands up to 64 KiB from one of these hosts to the other as one piece: nothing on the way cuts it, and the receiver copies it once. Weft has a header and a checksum of its own for each 1,500 bytes. " +
		"A bare program that sends such frames, and does nothing else, is the limit `udp-bandwidth`: it has 5.0 to 5.5 GB/s where TCP has 6.4, and 1.6 to 4.2 where that has 2.9 to 4.7, and Weft 0.87 to 1.5 of it."},
	{[]string{"P9"}, false, "Here the ratio is of two medians of five turns, each of a fraction of a second and with processes of its own, which strays by 0.13 whatever is lost. In turns of 0.1 s within one run, `weft bench loss` " +
		"has 0.95 to 0.98 with 1 %, and 0.87 to 0.91 with 5 %; " +
		"and a run over UDP with 5 % had 0.55 now and then, [until losses counted for the round that had posted what was lost](../performance.md#loss)."},
}

// reasons says of goals that are missed where the time goes.
func reasons(b *strings.Builder, r *contest.Result, missed map[string]bool) {
	var lines []string
	for _, w := range why {
		of := slices.DeleteFunc(slices.Clone(w.goals), func(g string) bool { return !missed[g] })
		if len(of) > 0 && (busy(r) || !w.busy) {
			lines = append(lines, fmt.Sprintf("- %s. %s\n", strings.Join(of, ", "), w.text))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\nWhy a goal is missed, as far as it is known; [where the time goes](../performance.md#where-weft-stands) goal by goal, met or not:\n\n%s", strings.Join(lines, ""))
	}
}
