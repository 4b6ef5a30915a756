// Package page makes the charts of a result, and the page that shows them.
package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/bench/peers/internal/chart"
	"github.com/weftnet/weft/bench/peers/internal/contest"
)

// Picture is a chart with the name of its file.
type Picture struct {
	File, Title string
	SVG         []byte
}

// styles gives a contestant the same colour on all charts.
var styles = map[string]string{
	"Weft, shm": "weft", "Weft, udp": "weft", "Weft, xdp": "weft2", "Weft, udp, daemons": "weft3",
	"UCX": "blue", "Open MPI": "teal", "libfabric": "green", "ZeroMQ": "purple", "sockperf": "olive",
	"Go net UDP": "sand", "Go net TCP": "brown", "Go net TCP, BBR": "slate", "grpc-go": "pink", "NATS": "indigo",
	"quic-go":           "cyan",
	"Weft, udp, sealed": "weft", "Weft, xdp, sealed": "weft2", "Weft, udp, daemons, sealed": "weft3",
	"Go TLS over TCP": "rust", "grpc-go, TLS": "violet", "wireguard-go, TCP": "moss", "wireguard-go, UDP": "steel",
}

func styleOf(contestant string) string { return cmp.Or(styles[contestant], "else") }

// label returns a contestant's name with its marks.
func label(r *contest.Result, contestant string) string { return contestant + r.Marks(contestant) }

// source returns the line below a title that says where the figures come from.
func source(r *contest.Result) string {
	return fmt.Sprintf("%s, %d cores, Linux %s; commit %s; %s; %d rounds",
		r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel, r.Commit, date(r), r.Rounds)
}

// starred returns source, for charts that have figures of another run.
func starred(r *contest.Result) string { return source(r) + "; * measured elsewhere" }

func date(r *contest.Result) string {
	d, _, _ := strings.Cut(r.Date, "T")
	return d
}

// Pictures draws all charts.
func Pictures(r *contest.Result) []Picture {
	var all []Picture
	add := func(file, title string, svg func(title string) []byte) {
		all = append(all, Picture{file, title, svg(title)})
	}
	add("round-trip.svg", "64 bytes there and back", func(title string) []byte {
		return summary(r, title, "plain links; "+starred(r), r.PlainContestants, contest.Latency, contest.SmallSize,
			"median; on the left is better")
	})
	add("rate.svg", "Messages of 64 bytes, one way", func(title string) []byte {
		return summary(r, title, "plain links; "+starred(r), r.PlainContestants, contest.Rate, contest.SmallSize,
			"millions a second; on the right is better")
	})
	add("bandwidth.svg", "Messages of 1 MiB, one way", func(title string) []byte {
		return summary(r, title, "plain links; "+starred(r), r.PlainContestants, contest.Bandwidth, contest.LargeSize,
			"GB/s; on the right is better")
	})
	for _, ground := range []string{contest.Host, contest.Veth} {
		where := map[string]string{contest.Host: "one host", contest.Veth: "two hosts"}[ground]
		add("latency-"+ground+".svg", "There and back by length: "+where, func(title string) []byte {
			return bySize(r, title, plainChart(r), r.PlainContestants(ground), ground, contest.Latency,
				"Round trip, median")
		})
		add("bandwidth-"+ground+".svg", "Bandwidth by length: "+where, func(title string) []byte {
			return bySize(r, title, plainChart(r), r.PlainContestants(ground), ground, contest.Bandwidth,
				"Bandwidth, one way")
		})
		add("hdr-"+ground+".svg", "Distribution of 64 bytes there and back: "+where,
			func(title string) []byte { return distribution(r, title, ground) })
	}
	add("goodput-loss.svg", "Goodput where packets are lost",
		func(title string) []byte { return byLoss(r, title, contest.Bandwidth) })
	add("p99-loss.svg", "The slowest of a hundred round trips where packets are lost",
		func(title string) []byte { return byLoss(r, title, contest.Latency) })
	return append(all, sealedPictures(r)...)
}

// write returns a function that formats figures in their short form, as on axes.
func write(measure string) func(float64) string {
	return func(v float64) string {
		s := contest.Figure(measure, v)
		number, unit, _ := strings.Cut(s, " ")
		if strings.Contains(number, ".") {
			number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
		}
		return number + " " + unit
	}
}

// bytesName formats a size.
func bytesName(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// summary draws one figure of contestants, the best first, on one host and between two. who
// returns the contestants of a ground.
func summary(
	r *contest.Result, title, source string, who func(ground string) []string, measure string, size int, axis string,
) []byte {
	c := &chart.Dots{Title: title, Source: source, Label: axis,
		Write: func(v float64) string { return contest.Figure(measure, v) }, Tick: write(measure)}
	for _, ground := range []string{contest.Host, contest.Veth} {
		s := chart.Section{Title: contest.Title(ground)}
		for _, name := range who(ground) {
			if row, ok := r.Find(name, ground, 0, measure, size); ok && row.Value > 0 {
				s.Rows = append(s.Rows, chart.Dot{Name: label(r, name), Style: styleOf(name), Value: row.Value})
			}
		}
		slices.SortStableFunc(s.Rows, func(a, b chart.Dot) int {
			if measure == contest.Latency {
				return cmp.Compare(a.Value, b.Value)
			}
			return cmp.Compare(b.Value, a.Value)
		})
		c.Sections = append(c.Sections, s)
	}
	return c.SVG()
}

// bySize draws a measure of contestants by the length of messages.
func bySize(r *contest.Result, title, source string, who []string, ground, measure, axis string) []byte {
	c := &chart.Lines{Title: title, Source: source, X: chart.Axis{Label: "Length of the message"},
		Y: chart.Axis{Label: axis, Tick: write(measure)}}
	for _, size := range contest.Sizes(measure) {
		c.X.At = append(c.X.At, chart.Tick{Value: float64(size), Name: bytesName(size)})
	}
	for _, name := range who {
		s := chart.Series{Name: label(r, name), Style: styleOf(name)}
		for _, size := range contest.Sizes(measure) {
			if row, ok := r.Find(name, ground, 0, measure, size); ok && row.Value > 0 {
				s.Points = append(s.Points, chart.Point{X: float64(size), Y: row.Value})
			}
		}
		if len(s.Points) > 1 { // the summary shows a single figure
			c.Series = append(c.Series, s)
		}
	}
	return c.SVG()
}

// byLoss draws goodput, or the 99th percentile of round trips, by the share of lost packets.
func byLoss(r *contest.Result, title, measure string) []byte {
	c := &chart.Lines{Title: title, Source: lossSource(r), X: chart.Axis{Label: "Packets lost, each way"},
		Y: chart.Axis{Label: "Messages of 1 MiB, one way", Tick: write(measure)}}
	if measure == contest.Latency {
		c.Y.Label = "64 bytes there and back, 99 %"
	}
	for i, loss := range contest.Losses() {
		c.X.At = append(c.X.At, chart.Tick{Value: float64(int(1) << i), Name: fmt.Sprintf("%v %%", 100*loss)})
	}
	for _, name := range r.Contestants(contest.Loss) {
		s := chart.Series{Name: label(r, name), Style: styleOf(name)}
		for i, loss := range contest.Losses() {
			row, ok := r.Find(name, contest.Loss, loss, contest.Bandwidth, contest.LargeSize)
			v := row.Value
			if measure == contest.Latency {
				row, ok = r.Find(name, contest.Loss, loss, contest.Latency, contest.SmallSize)
				v = row.P99
			}
			if ok && v > 0 {
				s.Points = append(s.Points, chart.Point{X: float64(int(1) << i), Y: v})
			}
		}
		c.Series = append(c.Series, s)
	}
	return c.SVG()
}

// distribution draws the percentiles of each contestant's round trips, over all rounds. The axis
// has equal room for each nine: 90 %, 99 %, 99.9 %.
func distribution(r *contest.Result, title, ground string) []byte {
	nines := func(p float64) float64 { return 100 / (100 - p) }
	c := &chart.Lines{Title: title, Source: plainChart(r), X: chart.Axis{Label: "Percentile"},
		Y: chart.Axis{Label: "Round trip", Tick: write(contest.Latency)}}
	for _, p := range []float64{0, 50, 90, 99, 99.9, 99.99, 99.999} {
		c.X.At = append(c.X.At, chart.Tick{Value: nines(p), Name: fmt.Sprintf("%v %%", p)})
	}
	for _, name := range r.PlainContestants(ground) {
		row, _ := r.Find(name, ground, 0, contest.Latency, contest.SmallSize)
		s := chart.Series{Name: label(r, name), Style: styleOf(name)}
		for _, p := range row.Percentiles {
			s.Points = append(s.Points, chart.Point{X: nines(p.P), Y: p.Nanoseconds})
		}
		if len(s.Points) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c.SVG()
}
