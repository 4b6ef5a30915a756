// Package limit measures what the machine and the kernel allow. For each way that Weft goes, it
// runs the barest program that goes the same way and does nothing else. The figures of Weft are
// then printed as a ratio to the limit, measured in the same run.
//
//	weft bench …            limit
//	  │                       role 1, 2 …: a weft process each ──► "ready", and serves
//	  │                                                            until its input ends
//	  ├── starts the roles ──►
//	  │                       role 0: measures for the time given ──► one Result
//	  │◄── Result ────────────
//	  └── ends the roles
//
// The processes inherit a memory file and two eventfds, so a limit between processes is measured
// between processes. They are pinned, collect no garbage, and make blocking system calls past
// the Go runtime: a slow limit flatters the program that is compared with it. Each run starts
// new processes, so they take no core from other measurements in between.
//
// A round trip that takes less time than a few clock readings is timed in batches. The figure is
// then the median of the means of the batches.
package limit

import (
	"errors"
	"slices"
)

// Kind is the unit of a limit's figure.
type Kind string

// The kinds.
const (
	Latency   Kind = "latency"   // nanoseconds of a round trip, or of one operation
	Rate      Kind = "rate"      // messages per second
	Bandwidth Kind = "bandwidth" // bytes per second
)

// MaxSize is the longest message with which limits are measured, in bytes.
const MaxSize = 4 << 20

// Limit is one of the limits.
type Limit struct {
	Name string
	What string // in a few words
	Kind Kind
	// in bytes; the default sizes
	Sizes []int
	// measured between two hosts of a testbed, or over loopback; the others need no network
	Veth bool

	Sealed bool // its datagrams are sealed, as Weft's frames are on a sealed link
}

// Result is the figure of a limit in one run. Only the field of its Kind has a meaning for all
// programs.
type Result struct {
	P50            int64   `json:"p50_ns,omitempty"`
	MessagesPerSec float64 `json:"messages_per_s,omitempty"`
	BytesPerSec    float64 `json:"bytes_per_s,omitempty"`
}

// Only returns the result with the field of one kind alone.
func (r Result) Only(k Kind) Result {
	switch k {
	case Latency:
		return Result{P50: r.P50}
	case Rate:
		return Result{MessagesPerSec: r.MessagesPerSec}
	}
	return Result{BytesPerSec: r.BytesPerSec}
}

// Median returns the result whose every field is the median of the fields of rs. rs must not be
// empty.
func Median(rs []Result) Result {
	return Result{
		P50:            median(rs, func(r Result) int64 { return r.P50 }),
		MessagesPerSec: median(rs, func(r Result) float64 { return r.MessagesPerSec }),
		BytesPerSec:    median(rs, func(r Result) float64 { return r.BytesPerSec }),
	}
}

func median[T int64 | float64](rs []Result, figure func(Result) T) T {
	vs := make([]T, len(rs))
	for i, r := range rs {
		vs[i] = figure(r)
	}
	slices.Sort(vs)
	return (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2
}

// ErrUnavailable is wrapped by errors of limits that this machine cannot run, or this user may
// not run.
var ErrUnavailable = errors.New("limit unavailable")

// Find returns the limit with a name.
func Find(name string) (Limit, bool) {
	for _, l := range All() {
		if l.Name == name {
			return l, true
		}
	}
	return Limit{}, false
}
