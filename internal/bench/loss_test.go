package bench

import (
	"context"
	"slices"
	"testing"
	"time"
)

// scripted is a side that records when it is asked, and is as fast as the script says.
type scripted struct {
	name  string
	speed []float64 // of the streams, in order
	asked *[]string
}

func (s *scripted) sample(_ context.Context, kind string, _ int, _ time.Duration) (r sample, err error) {
	*s.asked = append(*s.asked, s.name+" "+kind)
	if kind == KindLatency {
		return sample{Times: newHistogram()}, nil
	}
	r.Bandwidth, s.speed = s.speed[0], s.speed[1:]
	return r, nil
}

// The figure for loss is that of most rounds. In the third round, other work slowed the machine
// during one of the two turns.
func TestEachRoundOfLossIsComparedWithinItself(t *testing.T) {
	var asked []string
	clean := &scripted{"clean", []float64{100, 200, 400}, &asked}
	lossy := &scripted{"lossy", []float64{90, 190, 40}, &asked}
	var l lossRun
	for range 3 {
		if err := l.round(t.Context(), &LossOptions{Rounds: 3, Time: time.Second}, clean, lossy); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"clean bandwidth", "lossy bandwidth", "lossy latency", "lossy bandwidth", "clean bandwidth", "lossy latency",
		"clean bandwidth", "lossy bandwidth", "lossy latency"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	if each := l.ratios(); !slices.Equal(each, []float64{0.9, 0.95, 0.1}) || median(each) != 0.9 || each[1] != 0.95 {
		t.Errorf("ratios %v, median %v", each, median(each))
	}
}
