package bench

import (
	"encoding/json"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// times is a histogram of durations. In JSON it has the encoding of HdrHistogram.
type times struct{ *hdrhistogram.Histogram }

// slowest is the longest time that the histogram can hold.
const slowest = time.Minute

func newHistogram() *times { return &times{hdrhistogram.New(1, int64(slowest), 3)} }

// note adds a duration, unless t is nil.
func (t *times) note(took time.Duration) {
	if t != nil && took > 0 {
		// it fails beyond the range of the histogram, which the bound excludes
		_ = t.RecordValue(int64(min(took, slowest)))
	}
}

// p50 returns the median, in ns.
func (t *times) p50() int64 { return t.ValueAtQuantile(50) }

// MarshalJSON implements json.Marshaler.
func (t *times) MarshalJSON() ([]byte, error) {
	b, err := t.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, err
	}
	return json.Marshal(b)
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *times) UnmarshalJSON(text []byte) (err error) {
	var b []byte
	if err = json.Unmarshal(text, &b); err == nil {
		t.Histogram, err = hdrhistogram.Decode(b)
	}
	return err
}

// warmUp returns how long a measurement of length d runs before it counts.
func warmUp(d time.Duration) time.Duration { return min(d/10, 250*time.Millisecond) }

// Latency holds percentiles of round trips.
type Latency struct {
	P50  int64 `json:"p50_ns"`
	P90  int64 `json:"p90_ns"`
	P99  int64 `json:"p99_ns"`
	P999 int64 `json:"p999_ns"`
}

func (t *times) latency() Latency {
	return Latency{P50: t.p50(), P90: t.ValueAtQuantile(90), P99: t.ValueAtQuantile(99), P999: t.ValueAtQuantile(99.9)}
}
