package testenv

import (
	"testing"
	"time"
)

func TestWhatWasLateIsAddedUpAndWhatWasInTimeIsNot(t *testing.T) {
	const ms = time.Millisecond
	var m Meter
	for _, c := range []struct{ now, want time.Duration }{
		{2 * ms, 0}, {4 * ms, 0}, {7 * ms, 0}, // a timer is not exact
		{57 * ms, 48 * ms}, {59 * ms, 48 * ms}, {70 * ms, 57 * ms},
	} {
		if got := m.until(c.now); got != c.want { // while the lateness still grows
			t.Errorf("at %v: %v late, want %v", c.now, got, c.want)
		}
		m.ran(c.now)
		if got := m.until(c.now); got != c.want {
			t.Errorf("after %v: %v late, want %v", c.now, got, c.want)
		}
	}
}

func TestAMeterIsNeverLaterThanTheTimeThatHasPassed(t *testing.T) {
	m := WatchLateness(t)
	for m.begun.Add(50 * time.Millisecond).After(time.Now()) {
		if late, passed := m.Total(), time.Since(m.begun); late > passed {
			t.Fatalf("%v late in %v", late, passed)
		}
	}
}
