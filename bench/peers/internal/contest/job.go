// Package contest holds the measurements and their results. It starts no program.
//
//	round 1:   A  B  C  D        each contestant once; the next round begins one third further on,
//	round 2:      B  C  D  A     so none always follows the same neighbour
//	  …
//	           └──────────► Samples ──► Rows: medians of the rounds ──► table, JSON, charts
//
// If the rounds are short, a machine that is slow for a while is slow for all contestants.
package contest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Measures.
const (
	Latency   = "latency"   // the median of round trips, in ns
	Rate      = "rate"      // messages per second, one way
	Bandwidth = "bandwidth" // bytes per second, one way
	// pages or blocks read from another host per second, with ReadDepth reads in flight
	Reads = "reads"
)

// Sizes of the figures in the tables, in bytes.
const (
	SmallSize = 64
	LargeSize = 1 << 20
	PageSize  = 4 << 10
)

// ReadDepth is the number of reads in flight for the measure Reads.
const ReadDepth = 32

// Job is one measurement by a contestant.
type Job struct {
	Measure string
	Size    int // bytes of a message
	Time    time.Duration
}

// String returns the job as a process gets it: latency:64:200, with the time in ms.
func (j Job) String() string {
	return fmt.Sprintf("%s:%d:%d", j.Measure, j.Size, j.Time.Milliseconds())
}

// Jobs is a list of jobs, in the order in which they run.
type Jobs []Job

// String returns the list as a process gets it.
func (js Jobs) String() string {
	words := make([]string, len(js))
	for i, j := range js {
		words[i] = j.String()
	}
	return strings.Join(words, ",")
}

// ParseJobs parses the text of String.
func ParseJobs(s string) (Jobs, error) {
	var js Jobs
	for word := range strings.SplitSeq(s, ",") {
		f := strings.Split(word, ":")
		if len(f) != 3 || !slices.Contains([]string{Latency, Rate, Bandwidth, Reads}, f[0]) {
			return nil, fmt.Errorf(
				"job %q: expected latency, rate, bandwidth or reads, bytes and milliseconds, with colons between them",
				word)
		}
		size, err1 := strconv.Atoi(f[1])
		ms, err2 := strconv.Atoi(f[2])
		if err1 != nil || err2 != nil || size < 1 || ms < 1 {
			return nil, fmt.Errorf("job %q: expected bytes and milliseconds above 0", word)
		}
		js = append(js, Job{f[0], size, time.Duration(ms) * time.Millisecond})
	}
	return js, nil
}

// Sizes returns the sizes of the curves of a measure, in bytes.
func Sizes(measure string) []int {
	if measure == Latency {
		return []int{16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
	}
	return []int{1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}
}

// FullJobs returns the jobs of the table, each for the time head, and those of the other points
// of the curves, each for the time point.
func FullJobs(head, point time.Duration) Jobs {
	js := Jobs{{Latency, SmallSize, head}}
	for _, size := range Sizes(Latency) {
		if size != SmallSize {
			js = append(js, Job{Latency, size, point})
		}
	}
	js = append(js, Job{Rate, SmallSize, head}, Job{Bandwidth, LargeSize, head})
	for _, size := range Sizes(Bandwidth) {
		if size != LargeSize {
			js = append(js, Job{Bandwidth, size, point})
		}
	}
	return js
}

// HeadJobs returns the jobs of the table only.
func HeadJobs(head time.Duration) Jobs {
	return Jobs{{Latency, SmallSize, head}, {Rate, SmallSize, head}, {Bandwidth, LargeSize, head}}
}

// LossJobs returns the jobs with packet loss. They get more time: a stream must lose packets
// before the cost shows, and few round trips meet a loss.
func LossJobs(head time.Duration) Jobs {
	return Jobs{{Bandwidth, LargeSize, 2 * head}, {Latency, SmallSize, 3 * head}}
}

// PageJobs returns the jobs with pages: one at a time, many in flight, and in order.
func PageJobs(head time.Duration) Jobs {
	return Jobs{{Latency, PageSize, head}, {Reads, PageSize, head}, {Bandwidth, PageSize, head}}
}

// Upto returns the jobs of the given measures whose size is at most most bytes.
func (js Jobs) Upto(most int, measures ...string) Jobs {
	var kept Jobs
	for _, j := range js {
		for _, m := range measures {
			if j.Measure == m && j.Size <= most {
				kept = append(kept, j)
			}
		}
	}
	return kept
}
