package picture

import "math"

// Plot is a rectangle of a drawing with two axes. A logarithmic axis has positive ends.
type Plot struct {
	Left, Top, Right, Bottom float64 // pixels
	X, Y                     Axis
}

// Axis is one direction of a plot.
type Axis struct {
	From, To float64 // the values at the ends: left and right, or bottom and top
	Log      bool
	Label    string // the quantity and its unit
	Ticks    []Tick
}

// Tick is a value of an axis with its name.
type Tick struct {
	Value float64
	Name  string
}

// part returns the place of a value on the axis, from 0 to 1.
func (a Axis) part(v float64) float64 {
	if a.Log {
		return math.Log(v/a.From) / math.Log(a.To/a.From)
	}
	return (v - a.From) / (a.To - a.From)
}

// At returns the pixel of a pair of values.
func (p *Plot) At(x, y float64) Point {
	return Point{p.Left + (p.Right-p.Left)*p.X.part(x), p.Bottom - (p.Bottom-p.Top)*p.Y.part(y)}
}

// Plot draws the axes with their ticks and labels.
func (d *Drawing) Plot(p *Plot) {
	for _, t := range p.Y.Ticks {
		at := p.At(p.X.From, t.Value)
		d.Line("grid", at, Point{p.Right, at.Y})
		d.Text("small end", at.X-8, at.Y+4, t.Name)
	}
	for _, t := range p.X.Ticks {
		at := p.At(t.Value, p.Y.From)
		d.Line("grid", at, Point{at.X, p.Top})
		d.Text("small mid", at.X, at.Y+18, t.Name)
	}
	d.Path("axis", []Point{{p.Left, p.Top}, {p.Left, p.Bottom}, {p.Right, p.Bottom}})
	d.Text("small", p.Left, p.Top-10, p.Y.Label)
	d.Text("small mid", (p.Left+p.Right)/2, p.Bottom+38, p.X.Label)
}
