package histogram

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsFollowEachOtherWithoutAHole(t *testing.T) {
	next := uint64(0)
	for i := range Buckets {
		from, width := edges(i)
		if from != next || bucket(from) != i || bucket(from+width-1) != i {
			t.Fatalf("bucket %d has %d ns to %d ns; %d and %d fall into buckets %d and %d; want it to begin at %d",
				i, from, from+width-1, from, from+width-1, bucket(from), bucket(from+width-1), next)
		}
		if next = from + width; from >= 512 && width*8 > from {
			t.Errorf("bucket %d is %d ns wide at %d ns; want at most an eighth", i, width, from)
		}
	}
	if next != 1<<(unitBits+topBits) || bucket(next) != Buckets-1 || bucket(1<<63) != Buckets-1 {
		t.Errorf("the buckets end at %d; longer durations fall into %d and %d of %d", next, bucket(next), bucket(1<<63), Buckets)
	}
}

// The durations are spread over all magnitudes. The exact quantiles come from the sorted list.
func TestQuantilesAreExactToASixteenth(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var h Histogram
	var all []time.Duration
	var sum time.Duration
	for range 20000 {
		d := time.Duration(512 + rng.Uint64N(1<<(10+rng.Uint64N(20))))
		h.Record(d)
		all = append(all, d)
		sum += d
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		exact, got := all[min(int(q*float64(len(all))), len(all)-1)], h.Quantile(q)
		if off := (got - exact).Abs(); off*16 > exact {
			t.Errorf("quantile %v is %v; want %v", q, got, exact)
		}
	}
	if h.Count != 20000 || h.Sum != uint64(sum) || h.Most != uint64(all[len(all)-1]) || h.Mean() != sum/20000 {
		t.Errorf("count %d, sum %d, most %d, mean %v; want 20000, %d, %d, %v", h.Count, h.Sum, h.Most, h.Mean(), sum, all[len(all)-1], sum/20000)
	}
}

func TestNothingIsLongerThanTheLongest(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 {
		t.Error("an empty histogram has durations")
	}
	h.Record(-5)
	h.Record(970)
	if got := h.Quantile(1); got != 970 || h.Quantile(0) >= 64 || h.Sum != 970 {
		t.Errorf("quantiles 0 and 1 are %v and %v, the sum is %d; want less than 64 ns, 970 ns, 970", h.Quantile(0), got, h.Sum)
	}
}

func TestADifferenceHoldsTheLaterDurationsOnly(t *testing.T) {
	var h, want Histogram
	h.Record(3 * time.Microsecond)
	h.Record(time.Second)
	earlier := h
	for _, d := range []time.Duration{time.Microsecond, 2 * time.Second} {
		h.Record(d)
		want.Record(d)
	}
	if got := h.Since(&earlier); got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Record(12345) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		h.Record(time.Duration(i&0xffff) << 4)
	}
}
