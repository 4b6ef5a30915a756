// Package chart draws charts as SVG, like the other pictures in docs/: on their own paper, with
// colours for light and dark surroundings, and with a label at the end of each line.
//
//	┌──────────────────────────────────────────┐
//	│ title                                    │
//	│ from where the figures are               │
//	│ axis with its unit                       │
//	│ 10 µs ┤      ╭───── one                  │
//	│  1 µs ┤ ─────╯───── another              │
//	│       └─┬────┬────┬                      │
//	│        64 B  …   1 MiB   axis            │
//	└──────────────────────────────────────────┘
//
// All figures span decades, so all axes are logarithmic.
package chart

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Axis is one direction of a chart.
type Axis struct {
	Label string               // name of the axis, with the unit if ticks lack it
	Tick  func(float64) string // formats a value; nil: the ticks have names
	At    []Tick               // named ticks; nil: drawn from the values
}

// Tick is a place on an axis with a name.
type Tick struct {
	Value float64
	Name  string
}

// Point is one figure of a series.
type Point struct{ X, Y float64 }

// Series is one line with its label.
type Series struct {
	Name   string
	Style  string // of Styles
	Points []Point
}

// Lines is a chart of lines.
type Lines struct {
	Title, Source string
	X, Y          Axis
	Series        []Series
}

// The measures of a chart of lines, in pixels.
const (
	width, height             = 940, 560
	left, right, top, bottom  = 84, 190, 96, 64
	plotRight, plotBottom     = width - right, height - bottom
	labelGap, charWidth       = 15.0, 6.6
	dotRadius, hollowDotWidth = 3.2, 1.8
)

// scale maps values of a logarithmic axis to pixels.
type scale struct{ low, high, from, to float64 }

func (s scale) at(v float64) float64 {
	return s.from + (s.to-s.from)*math.Log(v/s.low)/math.Log(s.high/s.low)
}

// SVG returns the chart as SVG.
func (l *Lines) SVG() []byte {
	var xs, ys []float64
	for _, s := range l.Series {
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	for _, t := range l.X.At {
		xs = append(xs, t.Value)
	}
	d := newDrawing(width, height, l.Title, l.Source, l.describe())
	if len(ys) == 0 {
		d.text("small mid", width/2, height/2, "no figures")
		return d.end()
	}
	x := scale{slices.Min(xs), slices.Max(xs), left + 14, plotRight - 14}
	low, high := around(slices.Min(ys), slices.Max(ys))
	y := scale{low, high, plotBottom, top}
	d.axes(l, x, y)
	d.lines(l.Series, x, y)
	return d.end()
}

// describe returns a text about the lines, for screen readers.
func (l *Lines) describe() string {
	var names []string
	for _, s := range l.Series {
		names = append(names, s.Name)
	}
	return fmt.Sprintf("%s, by %s: %s.", l.Y.Label, strings.ToLower(l.X.Label), strings.Join(names, "; "))
}

// around widens a range to steps of 1, 2, 5, so no line runs along the edge.
func around(low, high float64) (float64, float64) {
	return step(low*0.95, -1), step(high*1.05, 1)
}

// step returns the next of 1, 2, 5, 10, 20 … below or above a value.
func step(v float64, direction int) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	steps := []float64{1, 2, 5, 10}
	if direction < 0 {
		slices.Reverse(steps)
	}
	for _, s := range steps {
		if (direction > 0 && s*decade >= v) || (direction < 0 && s*decade <= v) {
			return s * decade
		}
	}
	return v
}

// ticks returns the decades between two values. If there are few, it also returns 2 and 5 of
// each.
func ticks(low, high float64) (at []float64) {
	between := []float64{1}
	if high/low < 2000 {
		between = []float64{1, 2, 5}
	}
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for _, s := range between {
			if v := s * decade; v >= low*0.999 && v <= high*1.001 {
				at = append(at, v)
			}
		}
	}
	return at
}

// axes draws the grid, the ticks and the labels of the axes.
func (d *drawing) axes(l *Lines, x, y scale) {
	for _, v := range ticks(y.low, y.high) {
		d.line("grid", left, y.at(v), plotRight, y.at(v))
		d.text("small end", left-8, y.at(v)+4, l.Y.Tick(v))
	}
	for _, t := range l.X.At {
		d.line("grid", x.at(t.Value), top, x.at(t.Value), plotBottom)
		d.text("small mid", x.at(t.Value), plotBottom+18, t.Name)
	}
	d.line("axis", left, plotBottom, plotRight, plotBottom)
	d.line("axis", left, top, left, plotBottom)
	d.text("label", 20, top-14, l.Y.Label)
	d.text("label mid", (left+plotRight)/2, plotBottom+44, l.X.Label)
}

// lines draws the series, and their labels at the ends. Labels that would overlap are moved
// apart.
func (d *drawing) lines(all []Series, x, y scale) {
	type label struct {
		name, style string
		from, at    float64 // the end of the line, and the place of the label
		end         float64
	}
	var labels []label
	for _, s := range all {
		if len(s.Points) == 0 {
			continue
		}
		var path []string
		for _, p := range s.Points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.X), y.at(p.Y)))
		}
		d.printf("  <polyline class=\"way %s\" points=\"%s\"/>\n", s.Style, strings.Join(path, " "))
		for _, p := range s.Points {
			d.printf("  <circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n",
				s.Style, x.at(p.X), y.at(p.Y), dotRadius)
		}
		last := s.Points[len(s.Points)-1]
		labels = append(labels, label{s.Name, s.Style, y.at(last.Y), y.at(last.Y), x.at(last.X)})
	}
	slices.SortStableFunc(labels, func(a, b label) int { return int(math.Copysign(1, a.from-b.from)) })
	wanted := make([]float64, len(labels))
	for i, l := range labels {
		wanted[i] = l.at
	}
	for i, at := range apart(wanted, labelGap, top, plotBottom) {
		l := labels[i]
		d.printf("  <polyline class=\"lead\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n",
			l.end+5, l.from, float64(plotRight+6), at, float64(plotRight+12), at)
		d.text("name "+l.style, plotRight+16, at+4, l.name)
	}
}

// apart moves places, which are in ascending order, until none is nearer than gap to the next.
// It keeps all of them between low and high if they fit there, each as near to its old place as
// possible.
func apart(places []float64, gap, low, high float64) []float64 {
	moved := slices.Clone(places)
	for range 200 {
		still := true
		for i := 1; i < len(moved); i++ {
			if lack := gap - (moved[i] - moved[i-1]); lack > 0.01 {
				moved[i-1] -= lack / 2
				moved[i] += lack / 2
				still = false
			}
		}
		for i := range moved {
			moved[i] = min(max(moved[i], low), high)
		}
		if still {
			break
		}
	}
	return moved
}

// drawing is an unfinished SVG.
type drawing struct {
	bytes.Buffer
	height float64
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.Buffer, format, args...) }

func newDrawing(width, height float64, title, source, description string) *drawing {
	d := &drawing{height: height}
	d.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-labelledby=\"t d\">\n",
		width, height, width, height)
	d.printf("  <title id=\"t\">%s</title>\n  <desc id=\"d\">%s</desc>\n  <style>\n%s  </style>\n",
		html.EscapeString(title), html.EscapeString(description), css())
	d.printf("  <rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"%.0f\" height=\"%.0f\" rx=\"10\"/>\n",
		width-1, height-1)
	d.text("head", 20, 32, title)
	d.text("small", 20, 52, source)
	return d
}

func (d *drawing) end() []byte {
	d.printf("</svg>\n")
	return d.Bytes()
}

func (d *drawing) text(class string, x, y float64, text string) {
	d.printf("  <text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, x, y, html.EscapeString(text))
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.printf("  <line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x1, y1, x2, y2)
}
