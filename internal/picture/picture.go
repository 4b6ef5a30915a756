// Package picture draws the pictures of the examples as SVG, and compares them with the files in
// docs/pictures. Only tests use it.
//
//	┌───────────────────────────┐
//	│ title                     │
//	│ source                    │
//	│ ┌───────┐    │            │
//	│ │ Grid  │    │   Plot     │
//	│ └───────┘    └─────────── │
//	└───────────────────────────┘
//
// A picture has paper of its own, and colors for light and for dark surroundings.
package picture

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// Point is a place, in pixels or in the units of a [Plot].
type Point struct{ X, Y float64 }

// Drawing is an SVG document in the making.
type Drawing struct {
	b bytes.Buffer
}

// New starts a drawing of the given size in pixels. The source is a line under the title. The
// description is for screen readers.
func New(width, height int, title, source, description string) *Drawing {
	d := new(Drawing)
	d.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\""+
		" role=\"img\" aria-labelledby=\"t d\">\n", width, height, width, height)
	d.printf("  <title id=\"t\">%s</title>\n  <desc id=\"d\">%s</desc>\n  <style>\n%s  </style>\n",
		html.EscapeString(title), html.EscapeString(description), style())
	d.printf("  <rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"10\"/>\n", width-1, height-1)
	d.Text("head", 20, 32, title)
	d.Text("small", 20, 52, source)
	return d
}

func (d *Drawing) printf(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

// svg returns the finished document.
func (d *Drawing) svg() []byte { return append(bytes.Clone(d.b.Bytes()), "</svg>\n"...) }

// Text writes one line of text. Its baseline starts at x and y. The classes "mid" and "end" center
// it at x, and end it there.
func (d *Drawing) Text(class string, x, y float64, text string) {
	d.printf("  <text class=\"%s\" x=\"%s\" y=\"%s\">%s</text>\n", class, pixels(x), pixels(y), html.EscapeString(text))
}

// Line draws a straight line.
func (d *Drawing) Line(class string, from, to Point) { d.Path(class, []Point{from, to}) }

// Path draws straight lines from point to point.
func (d *Drawing) Path(class string, points []Point) {
	var b strings.Builder
	for i, p := range points {
		b.WriteByte("ML"[min(i, 1)])
		b.WriteString(pixels(p.X) + " " + pixels(p.Y))
	}
	d.printf("  <path class=\"%s\" d=\"%s\"/>\n", class, &b)
}

// Dots draws a dot at each point.
func (d *Drawing) Dots(class string, points []Point) {
	var b strings.Builder
	for _, p := range points {
		b.WriteString("M" + pixels(p.X) + " " + pixels(p.Y) + "h0")
	}
	d.printf("  <path class=\"dot %s\" d=\"%s\"/>\n", class, &b)
}

// pixels writes a coordinate with a tenth of a pixel.
func pixels(x float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", x+0), ".0") }

// Levels is the number of colors of a [Drawing.Grid].
const Levels = 10

// Grid draws square cells in rows. Each has a level from 0 to Levels−1: the color of the cell.
// Cells of level 0 show the background of the grid.
func (d *Drawing) Grid(x, y, cell float64, columns int, levels []int) {
	rows := len(levels) / columns
	d.printf("  <g class=\"cells\" transform=\"translate(%s %s) scale(%s)\">\n", pixels(x), pixels(y), pixels(cell))
	d.printf("    <rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", columns, rows)
	for level := 1; level < Levels; level++ {
		var b strings.Builder
		for row := range rows {
			line := levels[row*columns : (row+1)*columns]
			for i := 0; i < columns; i++ {
				if line[i] != level {
					continue
				}
				from := i
				for i < columns && line[i] == level {
					i++
				}
				fmt.Fprintf(&b, "M%d %dh%d", from, row, i-from)
			}
		}
		if b.Len() > 0 {
			d.printf("    <path class=\"l%d\" transform=\"translate(0 .5)\" d=\"%s\"/>\n", level, &b)
		}
	}
	d.printf("  </g>\n")
}

// Key draws the colors of a grid from left to right, each with its name below.
func (d *Drawing) Key(x, y, cell float64, names ...string) {
	levels := make([]int, Levels)
	for i := range levels {
		levels[i] = i
	}
	d.Grid(x, y, cell, Levels, levels)
	for i, name := range names {
		d.Text("small mid", x+(float64(i)+0.5)*cell, y+cell+14, name)
	}
}
