package contest

import (
	"math/bits"
	"slices"
)

// Steps is a distribution of round trips: numbers of round trips by duration, the shortest
// first. Merge joins the distributions of several rounds, of any program and any resolution.
type Steps []Step

// Step is a number of round trips of the same duration, within the resolution.
type Step struct {
	Nanoseconds float64 `json:"ns"`
	Count       int64   `json:"n"`
}

// Merge joins distributions.
func Merge(all ...Steps) Steps {
	joined := slices.Concat(all...)
	slices.SortFunc(joined, func(a, b Step) int {
		switch {
		case a.Nanoseconds < b.Nanoseconds:
			return -1
		case a.Nanoseconds > b.Nanoseconds:
			return 1
		}
		return 0
	})
	return joined
}

// Total returns the number of round trips.
func (s Steps) Total() (n int64) {
	for _, step := range s {
		n += step.Count
	}
	return n
}

// At returns the duration, in ns, that a percentile (0 to 100) of the round trips did not
// exceed. It is 0 if there are none.
func (s Steps) At(percentile float64) float64 {
	want, seen := percentile/100*float64(s.Total()), int64(0)
	for _, step := range s {
		if seen += step.Count; float64(seen) >= want {
			return step.Nanoseconds
		}
	}
	return 0
}

// Percentiles returns the percentiles of the curves.
func Percentiles() []float64 {
	return []float64{0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999}
}

// Percentile is one point of a curve.
type Percentile struct {
	P           float64 `json:"p"`
	Nanoseconds float64 `json:"ns"`
}

// Curve returns the percentiles beyond which at least three round trips lie, and all up to the
// median: a percentile of one in a thousand means nothing if there were only five hundred.
func (s Steps) Curve() (points []Percentile) {
	total := float64(s.Total())
	for _, p := range Percentiles() {
		if p <= 50 || total*(1-p/100) >= 3 {
			points = append(points, Percentile{p, s.At(p)})
		}
	}
	return points
}

// Histogram counts round trips with a precision of about one in 128, without allocating.
//
//	times below 256 ns:  one bucket each
//	beyond:              128 for each doubling
type Histogram struct {
	buckets [58 * 128]int64
}

// Add counts one round trip.
func (h *Histogram) Add(ns int64) { h.buckets[bucketOf(uint64(max(ns, 0)))]++ }

func bucketOf(ns uint64) int {
	doublings := max(bits.Len64(ns)-8, 0)
	return doublings*128 + int(ns>>doublings)
}

// Steps returns the counts as a distribution.
func (h *Histogram) Steps() (s Steps) {
	for i, n := range h.buckets {
		if n > 0 {
			s = append(s, Step{middleOf(i), n})
		}
	}
	return s
}

// middleOf inverts bucketOf. It returns the middle of a bucket. The first 256 buckets are those
// without doublings.
func middleOf(i int) float64 {
	doublings := max(i/128-1, 0)
	return (float64(i-doublings*128) + 0.5) * float64(uint64(1)<<doublings)
}
