// Package histogram counts durations in buckets of nearly equal relative width. A histogram has a
// fixed size, so recording allocates nothing, and tools can read it in shared memory.
//
//	octave              0               0               1        …      24
//	bucket        0 …   7   8 …  15  16 …  23      …      200 … 207
//	from, ns      0 … 448 512 … 960 1024 … 1920    …      8.6 s … 16.1 s
//	width, ns          64        64        128     …      1.07 s
//
// Octave 0 has sixteen buckets, each other octave has eight. From 512 ns on, the middle of a bucket
// differs by at most a sixteenth from each duration in it. Below, it differs by at most 32 ns. The
// last bucket also takes all longer durations.
package histogram

import (
	"math/bits"
	"time"
)

const (
	unitBits = 6  // the narrowest bucket is 64 ns wide: a clock is seldom more exact
	stepBits = 3  // eight buckets an octave
	topBits  = 28 // durations of 2^(unitBits+topBits) ns, 17 s, and more share the last bucket
)

// Buckets is the number of buckets of a histogram.
const Buckets = (topBits - stepBits + 1) << stepBits

// Histogram counts durations. The zero Histogram is empty. Only one goroutine may write it.
type Histogram struct {
	Count uint64 // of durations
	Sum   uint64 // of all durations, exact, in nanoseconds
	Most  uint64 // the longest duration, in nanoseconds

	Buckets [Buckets]uint64
}

// Record counts a duration. It counts a negative one as 0.
func (h *Histogram) Record(d time.Duration) {
	n := uint64(max(d, 0))
	h.Count++
	h.Sum += n
	h.Most = max(h.Most, n)
	h.Buckets[bucket(n)]++
}

// bucket returns the bucket of a duration of n nanoseconds.
func bucket(n uint64) int {
	v := min(n>>unitBits, 1<<topBits-1)
	octave := max(bits.Len64(v), stepBits+1) - (stepBits + 1)
	return octave<<stepBits + int(v>>octave)
}

// edges returns the first nanosecond of a bucket, and the width of the bucket in nanoseconds.
func edges(bucket int) (from, width uint64) {
	octave := max(bucket>>stepBits-1, 0)
	return uint64(bucket-octave<<stepBits) << (octave + unitBits), 1 << (octave + unitBits)
}

// Quantile returns a duration that the share q of the durations does not exceed: the middle of
// its bucket, at most Most. q is 0 to 1. An empty histogram has the quantile 0.
func (h *Histogram) Quantile(q float64) time.Duration {
	var all, below uint64
	for _, n := range h.Buckets {
		all += n
	}
	if all == 0 {
		return 0
	}
	rank := min(uint64(q*float64(all)), all-1)
	for i, n := range h.Buckets {
		if below += n; below > rank {
			from, width := edges(i)
			return time.Duration(min(from+width/2, h.Most))
		}
	}
	panic("histogram: the buckets hold fewer durations than their sum")
}

// Mean returns the mean of the durations; 0 if there are none.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return time.Duration(h.Sum / h.Count)
}

// Since returns the durations that h has counted after it was equal to earlier. Its Most is that
// of h, since the longest of these durations is not known.
func (h *Histogram) Since(earlier *Histogram) Histogram {
	d := *h
	d.Count -= earlier.Count
	d.Sum -= earlier.Sum
	for i := range d.Buckets {
		d.Buckets[i] -= earlier.Buckets[i]
	}
	return d
}
