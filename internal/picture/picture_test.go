package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// sample draws with everything that the package has.
func sample() *Drawing {
	d := New(400, 300, "A <title> & more", "source", "description")
	p := &Plot{Left: 50, Top: 80, Right: 190, Bottom: 250,
		X: Axis{From: 0, To: 10, Label: "x", Ticks: []Tick{{0, "0"}, {5, "5"}}},
		Y: Axis{From: 1, To: 100, Log: true, Label: "y", Ticks: []Tick{{1, "1"}, {10, "10"}}}}
	d.Plot(p)
	d.Path("way blue", []Point{p.At(0, 1), p.At(10, 100)})
	d.Dots("big red", []Point{p.At(5, 10)})
	d.Line("cut", Point{0, 0}, Point{1, 1})
	d.Grid(220, 80, 10, 4, []int{0, 1, 1, 9, 2, 2, 0, 1})
	d.Key(220, 200, 10, "cold")
	return d
}

func TestAPictureIsWellFormedAndItsStyleSheetKnowsEveryClass(t *testing.T) {
	d := xml.NewDecoder(bytes.NewReader(sample().svg()))
	elements := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, _ := token.(xml.StartElement)
		for _, a := range e.Attr {
			elements++
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
				t.Errorf("%s has %s=%q", e.Name.Local, a.Name.Local, a.Value)
			}
			for _, class := range strings.Fields(a.Value) {
				if a.Name.Local == "class" && !strings.Contains(style(), "."+class+" ") {
					t.Errorf("the style sheet has no rule for class %q", class)
				}
			}
		}
	}
	if elements < 30 {
		t.Errorf("found %d attributes; the search must be broken", elements)
	}
}

func TestAGridDrawsEachRunOfCellsOfOneLevel(t *testing.T) {
	svg := string(sample().svg())
	for _, want := range []string{
		`class="l1" transform="translate(0 .5)" d="M1 0h2M3 1h1"`,
		`class="l2" transform="translate(0 .5)" d="M0 1h2"`,
		`class="l9" transform="translate(0 .5)" d="M3 0h1"`,
		`<rect class="back" width="4" height="2"/>`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
}

func TestAPlotPlacesValuesOnLinearAndLogarithmicAxes(t *testing.T) {
	p := &Plot{Left: 100, Top: 0, Right: 200, Bottom: 300,
		X: Axis{From: -1, To: 1}, Y: Axis{From: 1, To: 1000, Log: true}}
	for _, c := range []struct{ x, y, px, py float64 }{{-1, 1, 100, 300}, {0, 10, 150, 200}, {1, 1000, 200, 0}} {
		at := p.At(c.x, c.y)
		if pixels(at.X) != pixels(c.px) || pixels(at.Y) != pixels(c.py) {
			t.Errorf("%v, %v is at %v; expected %v, %v", c.x, c.y, at, c.px, c.py)
		}
	}
}

func TestEveryLineHasColorsForLightAndDark(t *testing.T) {
	for _, c := range lines {
		if n := strings.Count(style(), "text."+c.class+" "); n != 2 {
			t.Errorf("%s has %d colors; expected 2", c.class, n)
		}
	}
}
