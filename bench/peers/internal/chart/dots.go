package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Dots is a chart with one figure per row: a name, a stem to a dot, and the figure. The length
// of a stem means nothing on a logarithmic axis, so the stem is thin; the position of the dot
// counts.
type Dots struct {
	Title, Source string
	Label         string               // name of the axis, and which end is better
	Write         func(float64) string // of a figure
	Tick          func(float64) string // of a value on the axis
	Sections      []Section
}

// Section is a heading with its rows.
type Section struct {
	Title string
	Rows  []Dot
}

// Dot is one row.
type Dot struct {
	Name  string
	Style string
	Value float64
}

// The measures of a chart of dots, in pixels.
const (
	dotsLeft, dotsRight = 230, 110
	rowHeight           = 22.0
	sectionHeight       = 40.0
	dotsTop, dotsFoot   = 66.0, 58.0
)

// SVG returns the chart as SVG.
func (c *Dots) SVG() []byte {
	high := dotsTop + dotsFoot
	var values []float64
	for _, s := range c.Sections {
		high += sectionHeight + rowHeight*float64(len(s.Rows))
		for _, r := range s.Rows {
			values = append(values, r.Value)
		}
	}
	d := newDrawing(width, high, c.Title, c.Source, c.describe())
	if len(values) == 0 {
		d.text("small mid", width/2, high/2, "no figures")
		return d.end()
	}
	lowest, highest := around(slices.Min(values)*0.8, slices.Max(values))
	x := scale{lowest, highest, dotsLeft, width - dotsRight}
	bottom := high - dotsFoot
	for _, v := range ticks(lowest, highest) {
		d.line("grid", x.at(v), dotsTop+8, x.at(v), bottom)
		d.text("small mid", x.at(v), bottom+18, c.Tick(v))
	}
	d.text("label mid", (dotsLeft+width-dotsRight)/2, bottom+42, c.Label)
	y := dotsTop
	for _, s := range c.Sections {
		d.text("head", 20, y+26, s.Title)
		y += sectionHeight
		for _, r := range s.Rows {
			middle := math.Round(y + rowHeight/2)
			d.text("name end "+r.Style, dotsLeft-12, middle+4, r.Name)
			d.line("stem "+r.Style, x.from, middle, x.at(r.Value), middle)
			d.printf("  <circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>\n", r.Style, x.at(r.Value), middle)
			d.text("value", x.at(r.Value)+11, middle+4, c.Write(r.Value))
			y += rowHeight
		}
	}
	return d.end()
}

// describe returns a text about the dots, for screen readers.
func (c *Dots) describe() string {
	var all []string
	for _, s := range c.Sections {
		for _, r := range s.Rows {
			all = append(all, fmt.Sprintf("%s %s", r.Name, c.Write(r.Value)))
		}
	}
	return c.Label + ": " + strings.Join(all, "; ") + "."
}
