package page

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// goal is a target of Weft: a comparison with the best other contestant.
type goal struct {
	number  string
	what    string
	weft    string
	than    string // the other contestant; "": the best
	column  contest.Column
	their   *contest.Column // the column of the other's figure; nil: the same
	atLeast float64         // Weft's advantage
}

func goalsOf() []goal {
	host, veth := contest.Columns(contest.Host), contest.Columns(contest.Veth)
	return slices.Concat([]goal{
		{"P1", "one host, 64 B there and back", "Weft, shm", "", host[0], nil, 1},
		{"P2", "one host, 64 B messages a second", "Weft, shm", "", host[2], nil, 1},
		{"P2", "one host, 1 MiB one way", "Weft, shm", "", host[3], nil, 1},
		{"P3", "two hosts, 64 B there and back, AF_XDP", "Weft, xdp", "", veth[0], nil, 2},
		{"P4", "two hosts, 64 B there and back, UDP", "Weft, udp", "", veth[0], nil, 1},
		{"P5", "two hosts, 64 B messages a second", "Weft, udp", "", veth[2], nil, 4},
		{"P6", "two hosts, 1 MiB one way", "Weft, udp", "", veth[3], nil, 1},
	}, pageGoals(), streamGoals("udp"), streamGoals("xdp"), []goal{
		{"P21", "two hosts, 64 B over a stream and back", "Weft, stream, xdp", "Go net TCP", veth[0], nil, 1 / 0.7},
		{"P21", "two hosts, gRPC, a unary call of 64 B", "Weft, grpc-go, xdp", "grpc-go", veth[0], nil, 1.3},
		{"P21", "two hosts, HTTP, requests a second from 64 connections", "Weft, net/http, xdp", "net/http", veth[2],
			nil, 1.2},
	})
}

// streamGoals returns the goals of a stream compared with messages over the same link.
func streamGoals(link string) []goal {
	veth := contest.Columns(contest.Veth)
	return []goal{
		{"P21", "64 B over a stream and back, by a message's, " + link, "Weft, stream, " + link, "Weft, " + link,
			veth[0], nil, 1 / 1.3},
		{"P21", "1 MiB over a stream, by messages of 1 MiB, " + link, "Weft, stream, " + link, "Weft, " + link, veth[3],
			nil, 0.85},
	}
}

// advantage returns how many times as good one figure is as another.
func advantage(measure string, ours, theirs float64) float64 {
	if measure == contest.Latency {
		return theirs / ours
	}
	return ours / theirs
}

// others lists the contestants other than Weft that have a figure of the same run as weft.
func others(r *contest.Result, ground, weft string) []string {
	return slices.DeleteFunc(r.Contestants(ground), func(name string) bool {
		return contest.Weft(name) || r.IsElsewhere(name) || r.RunOf(name) != r.RunOf(weft)
	})
}

// beside returns the column of the other's figure.
func (g *goal) beside() contest.Column {
	if g.their != nil {
		return *g.their
	}
	return g.column
}

// other returns the row of the contestant that a goal names, or of the best other in this run.
// It returns false if there is none. A contestant that answers requests is no rival of one that
// only sends.
func (g *goal) other(r *contest.Result) (found contest.Row, ok bool) {
	c := g.beside()
	if g.than != "" {
		return r.Find(g.than, c.Ground, c.Loss, c.Measure, c.Size)
	}
	for _, name := range others(r, c.Ground, g.weft) {
		row, there := r.Find(name, c.Ground, c.Loss, c.Measure, c.Size)
		if there && row.Value > 0 && (!ok || advantage(c.Measure, row.Value, found.Value) > 1) {
			found, ok = row, true
		}
	}
	return found, ok
}

// verdict says whether a figure reaches its goal.
func verdict(figure, goal float64) string {
	if figure >= goal {
		return "met"
	}
	return fmt.Sprintf("missed by %.0f %%", 100*(1-figure/goal))
}

// comparison is the result of a goal, in words.
type comparison struct{ number, what, weft, other, advantage, goal, verdict string }

// line returns all fields, with between between them.
func (c *comparison) line(between string) string {
	return strings.Join([]string{c.number, c.what, c.weft, c.other, c.advantage, c.goal, c.verdict}, between)
}

// compare compares Weft with the best of the others, figure by figure, and returns which goals
// are missed.
func compare(r *contest.Result) (all []comparison, missed map[string]bool) {
	all, missed = compareAll(r, goalsOf())
	lost, missedLoss := lossGoals(r)
	missed["P9"] = missedLoss
	return append(all, lost...), missed
}

func compareAll(r *contest.Result, goals []goal) (all []comparison, missed map[string]bool) {
	missed = make(map[string]bool)
	for _, g := range goals {
		ours, ok := r.Find(g.weft, g.column.Ground, 0, g.column.Measure, g.column.Size)
		other, has := g.other(r)
		if !ok || !has || ours.Value <= 0 || other.Value <= 0 || r.RunOf(ours.Contestant) != r.RunOf(other.Contestant) {
			continue
		}
		a := advantage(g.column.Measure, ours.Value, other.Value)
		missed[g.number] = missed[g.number] || a < g.atLeast
		all = append(all, comparison{g.number, g.what, r.Cell(g.weft, g.column),
			label(r, other.Contestant) + ", " + r.Cell(other.Contestant, g.beside()),
			fmt.Sprintf("%.2f", a), fmt.Sprintf("≥ %.3g", g.atLeast), verdict(a, g.atLeast)})
	}
	return all, missed
}

// WriteGoals prints the results of the goals, for a terminal.
func WriteGoals(out io.Writer, r *contest.Result) error {
	all, _ := compare(r)
	sealed, _ := compareAll(r, sealedGoalsOf())
	if all = append(all, sealed...); len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nWeft and the best of the others")
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\twhat\tWeft\tthe best other\tadvantage\tgoal\t")
	for _, c := range all {
		fmt.Fprintln(w, c.line("\t"))
	}
	return w.Flush()
}

// goals writes the results of the goals to the page.
func goals(b *strings.Builder, r *contest.Result) {
	b.WriteString(`
## Weft and the best of the others

An advantage of 2 means half the time, or twice as much in the same time; below 1, Weft is behind. ` +
		`What goals say of the ground's limits is measured by
` + "`weft bench … --against limit`" + `. All figures of Weft here are of plain links. ` +
		`Others with a dagger encrypt, and count as rivals nevertheless.

| | what | Weft | the best other | advantage | goal | |
|---|---|---|---|---|---|---|
`)
	all, missed := compare(r)
	for _, c := range all {
		fmt.Fprintf(b, "| %s |\n", c.line(" | "))
	}
	reasons(b, r, missed)
	b.WriteString("\n![Messages of 64 bytes, one way](rate.svg)\n\n![Messages of 1 MiB, one way](bandwidth.svg)\n")
}

// kept returns the share of the goodput that a contestant keeps with loss; 0 if it was not
// measured.
func kept(r *contest.Result, name string, loss float64) float64 {
	clean, ok := r.Find(name, contest.Loss, 0, contest.Bandwidth, contest.LargeSize)
	row, ok2 := r.Find(name, contest.Loss, loss, contest.Bandwidth, contest.LargeSize)
	if !ok || !ok2 || clean.Value <= 0 {
		return 0
	}
	return row.Value / clean.Value
}

// repair returns the 99th percentile of round trips with loss, in ns; 0 if it was not measured.
func repair(r *contest.Result, name string, loss float64) float64 {
	row, _ := r.Find(name, contest.Loss, loss, contest.Latency, contest.SmallSize)
	return row.P99
}

// lossGoals returns the goals about the cost of loss: goodput compared with that without loss,
// and the 99th percentile of round trips. It reports whether the goal for goodput is missed.
func lossGoals(r *contest.Result) (all []comparison, missed bool) {
	const weft = "Weft, udp"
	for _, g := range []struct{ loss, atLeast float64 }{{0.01, 0.9}, {0.05, 0.75}} {
		ours, most, who := kept(r, weft, g.loss), 0.0, ""
		for _, name := range others(r, contest.Loss, weft) {
			if v := kept(r, name, g.loss); v > most {
				most, who = v, name
			}
		}
		if ours > 0 && most > 0 {
			missed = missed || ours < g.atLeast
			all = append(all, comparison{"P9", fmt.Sprintf("goodput with %v %% of loss, by that without", 100*g.loss),
				fmt.Sprintf("%.2f", ours), fmt.Sprintf("%s, %.2f", label(r, who), most),
				fmt.Sprintf("%.2f", ours/most), fmt.Sprintf("Weft ≥ %.2f", g.atLeast), verdict(ours, g.atLeast)})
		}
	}
	const loss, goal = 0.01, 500e3 // ns
	ours, least, who := repair(r, weft, loss), 0.0, ""
	for _, name := range others(r, contest.Loss, weft) {
		if v := repair(r, name, loss); v > 0 && (who == "" || v < least) {
			least, who = v, name
		}
	}
	if ours > 0 && who != "" {
		all = append(all, comparison{"P10", "64 B there and back with 1 % of loss, 99 %",
			contest.Figure(contest.Latency, ours), label(r, who) + ", " + contest.Figure(contest.Latency, least),
			fmt.Sprintf("%.0f", least/ours), "Weft ≤ " + contest.Figure(contest.Latency, goal), verdict(goal, ours)})
	}
	return all, missed
}
