// Package limit measures what the ground allows: for each way that Weft goes, the barest program that goes the same way
// and does nothing else. What Weft reaches is then told as a ratio to it, measured in the same run.
//
//	weft bench …            limit
//	  │                       role 1, 2 …: a weft process each ──► "ready", and serves until its input ends
//	  ├── starts the roles ──►
//	  │                       role 0: measures for the time given ──► one Result
//	  │◄── Result ────────────
//	  └── ends the roles
//
// The processes share a memory file and two eventfds, which they inherit, so that what is measured between processes is
// measured between processes. They are pinned, collect no garbage, and make blocking system calls behind the Go
// runtime's back: a slow limit flatters what is compared with it. Each run starts them afresh, so that none takes
// a core from what is measured in between.
//
// A round trip that takes less time than a few clock readings is timed in batches; what counts is the mean of a batch
// then, and the median of these means.
package limit

import (
	"errors"
	"slices"
)

// Kind says in what a limit is told.
type Kind string

// The kinds.
const (
	Latency   Kind = "latency"   // nanoseconds of a round trip, or of whatever is done once
	Rate      Kind = "rate"      // messages a second
	Bandwidth Kind = "bandwidth" // bytes a second
)

// MaxSize is the longest message that limits are measured with, in bytes.
const MaxSize = 4 << 20

// Limit is one of the limits.
type Limit struct {
	Name  string
	What  string // in a few words
	Kind  Kind
	Sizes []int // that it is measured at when no others are asked for, in bytes
	Veth  bool  // between two hosts of a testbed, or over loopback; the others need no network

	Sealed bool // its datagrams are sealed as Weft's frames are on a sealed link
}

// Result is what a limit came to in one run. Only what its Kind tells has a meaning for all programs.
type Result struct {
	P50            int64   `json:"p50_ns,omitempty"`
	MessagesPerSec float64 `json:"messages_per_s,omitempty"`
	BytesPerSec    float64 `json:"bytes_per_s,omitempty"`
}

// Only returns the figure of a kind alone.
func (r Result) Only(k Kind) Result {
	switch k {
	case Latency:
		return Result{P50: r.P50}
	case Rate:
		return Result{MessagesPerSec: r.MessagesPerSec}
	}
	return Result{BytesPerSec: r.BytesPerSec}
}

// Median is the result whose every figure is the median of those of rs, of which there must be one at least.
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

// ErrUnavailable is wrapped by errors that say that a limit cannot be had on this machine, or by this user.
var ErrUnavailable = errors.New("limit unavailable")

// Find returns the limit of that name.
func Find(name string) (Limit, bool) {
	for _, l := range All() {
		if l.Name == name {
			return l, true
		}
	}
	return Limit{}, false
}
