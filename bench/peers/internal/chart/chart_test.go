package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures that are compared with")

func lines() *Lines {
	return &Lines{
		Title: "Round trips <of a message>", Source: "made up & tested",
		X: Axis{Label: "Length of the message", At: []Tick{{64, "64 B"}, {4096, "4 KiB"}, {1 << 20, "1 MiB"}}},
		Y: Axis{Label: "Median, µs", Tick: func(v float64) string { return fmt.Sprintf("%g µs", v/1e3) }},
		Series: []Series{
			{"Weft, shm", "weft", []Point{{64, 700}, {4096, 2000}, {1 << 20, 200_000}}},
			{"another", "blue", []Point{{64, 900}, {4096, 2500}, {1 << 20, 202_000}}},
			{"a third", "else", []Point{{64, 9000}}},
			{"nobody", "teal", nil},
		},
	}
}

func dots() *Dots {
	return &Dots{
		Title: "Round trips", Source: "made up", Label: "µs; the shorter, the better",
		Write: func(v float64) string { return fmt.Sprintf("%.2f µs", v/1e3) }, Tick: func(v float64) string { return fmt.Sprintf("%g µs", v/1e3) },
		Sections: []Section{
			{"One host", []Dot{{"Weft, shm", "weft", 700}, {"another", "blue", 9000}}},
			{"Two hosts", []Dot{{"Weft, udp", "weft", 7000}, {"elsewhere *", "else", 10_000}}},
		},
	}
}

func TestPicturesAreAsTheyWere(t *testing.T) {
	for name, got := range map[string][]byte{"lines.svg": lines().SVG(), "dots.svg": dots().SVG()} {
		file := filepath.Join("testdata", name)
		if *rewrite {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs; if that is meant: go test ./internal/chart -rewrite", file)
		}
	}
}

func TestPicturesAreWellFormed(t *testing.T) {
	empty := &Lines{Title: "Nothing", Y: Axis{Tick: func(float64) string { return "" }}}
	for name, svg := range map[string][]byte{"lines": lines().SVG(), "dots": dots().SVG(), "no lines": empty.SVG(), "no dots": (&Dots{}).SVG()} {
		classes := make(map[string]bool)
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, ok := token.(xml.StartElement); ok {
				for _, a := range e.Attr {
					if a.Name.Local == "class" {
						for _, c := range strings.Fields(a.Value) {
							classes[c] = true
						}
					}
					if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
						t.Errorf("%s: %s is %s", name, a.Name.Local, a.Value)
					}
				}
			}
		}
		for c := range classes {
			if !strings.Contains(css(), "."+c+" ") {
				t.Errorf("%s: the style sheet knows no %s", name, c)
			}
		}
	}
}

func TestEveryStyleHasColoursForLightAndDark(t *testing.T) {
	for _, c := range styles {
		if n := strings.Count(css(), ".name."+c.style+" { fill: "); n != 2 {
			t.Errorf("%s has %d colours, want 2", c.style, n)
		}
	}
}

func TestLabelsDoNotCoverOneAnother(t *testing.T) {
	for _, places := range [][]float64{{100, 100, 100}, {98, 99, 100, 300}, {10, 11, 399, 400}, {200}, {}} {
		moved := apart(places, 15, 10, 400)
		for i := range moved {
			if i > 0 && moved[i]-moved[i-1] < 14.9 {
				t.Errorf("%v became %v", places, moved)
			}
			if moved[i] < 10 || moved[i] > 400 {
				t.Errorf("%v became %v, which is out of the picture", places, moved)
			}
		}
	}
	if far := apart([]float64{50, 100, 200}, 15, 10, 400); !slices.Equal(far, []float64{50, 100, 200}) {
		t.Errorf("labels that were apart were moved to %v", far)
	}
}

func TestAxesEndAtRoundValues(t *testing.T) {
	for _, c := range [][4]float64{{700, 202_000, 500, 500_000}, {1, 1, 0.5, 2}, {0.03, 19, 0.02, 20}} {
		if low, high := around(c[0], c[1]); math.Abs(low/c[2]-1) > 1e-9 || math.Abs(high/c[3]-1) > 1e-9 {
			t.Errorf("around %v to %v: %v to %v, want %v to %v", c[0], c[1], low, high, c[2], c[3])
		}
	}
	for _, v := range ticks(500, 500_000) {
		if v < 500 || v > 500_000 {
			t.Errorf("a tick at %v", v)
		}
	}
}
