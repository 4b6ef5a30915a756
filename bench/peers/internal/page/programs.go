package page

import (
	"fmt"
	"strings"

	"github.com/weftnet/weft/bench/peers/internal/chart"
	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/bench/peers/internal/programs"
)

// seriesStyles gives a series the same colour on both charts. Limits are grey.
var seriesStyles = map[string]string{"mcp2mcp": "weft", "getdeliver": "weft2", "api": "blue", "app2app": "teal"}

// Programs draws the charts of programs in the NIC, one for each deployment.
func Programs(r *programs.Result) (all []Picture) {
	where := map[string]string{programs.Daemon: "NICs in daemons", programs.Embedded: "NICs inside the processes"}
	for _, deployment := range programs.Deployments() {
		title := "Programs in the NIC, there and back by length: " + where[deployment]
		all = append(all, Picture{"programs-" + deployment + ".svg", title, exchanges(r, title, deployment)})
	}
	return all
}

// links names the links of the figures: sealed, plain or both.
func links(r *programs.Result) string {
	sealed, plain := 0, 0
	for _, row := range r.Rows {
		if row.Sealed {
			sealed++
		} else {
			plain++
		}
	}
	switch {
	case sealed == 0:
		return "plain links"
	case plain == 0:
		return "sealed links"
	}
	return fmt.Sprintf("%d figures of sealed links and %d of plain", sealed, plain)
}

// exchanges draws the round trip of each series by the length of the message. The axis is
// logarithmic, so length 0 is one step before the shortest message.
func exchanges(r *programs.Result, title, deployment string) []byte {
	date, _, _ := strings.Cut(r.Date, "T")
	m := r.Machine
	c := &chart.Lines{Title: title,
		Source: fmt.Sprintf(
			"two hosts, a cable, AF_XDP, %s; %s, %d cores, Linux %s; commit %s; %s; %d rounds; others used %.1f cores",
			links(r), m.CPU, m.Cores, m.Kernel, r.Commit, date, r.Rounds, m.Others),
		X: chart.Axis{Label: "Length of the message"},
		Y: chart.Axis{Label: "Round trip, median", Tick: write(contest.Latency)}}
	sizes := programs.Sizes()
	at := func(size int) float64 {
		if size == 0 {
			return float64(sizes[1]) * float64(sizes[1]) / float64(sizes[2])
		}
		return float64(size)
	}
	for _, size := range sizes {
		c.X.At = append(c.X.At, chart.Tick{Value: at(size), Name: bytesName(size)})
	}
	names, by := r.Lines(deployment)
	for _, name := range names {
		s := chart.Series{Name: name, Style: "else"}
		if style := seriesStyles[name]; style != "" {
			s.Style = style
		}
		for _, size := range sizes {
			if v := by[name][size]; v > 0 {
				s.Points = append(s.Points, chart.Point{X: at(size), Y: v})
			}
		}
		c.Series = append(c.Series, s)
	}
	return c.SVG()
}
