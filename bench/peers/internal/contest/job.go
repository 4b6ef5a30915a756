// Package contest says what is measured, and what came of it. It starts nothing.
//
//	round 1:   A  B  C  D        every contestant once a round; the next round begins one third further on,
//	round 2:      B  C  D  A     so that none always follows the same neighbour
//	  …
//	           └──────────► Samples ──► Rows: medians of the rounds ──► table, JSON, charts
//
// A machine that is slow for a while is so for all, as long as rounds are short.
package contest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What is measured.
const (
	Latency   = "latency"   // the median of round trips, in ns
	Rate      = "rate"      // messages a second, one way
	Bandwidth = "bandwidth" // bytes a second, one way
	Reads     = "reads"     // of pages or blocks from another host, a second, with ReadDepth of them under way
)

// The sizes that the table is about, in bytes.
const (
	SmallSize = 64
	LargeSize = 1 << 20
	PageSize  = 4 << 10
)

// ReadDepth is how many reads are under way where not one is at a time.
const ReadDepth = 32

// Job is one measurement that a contestant makes.
type Job struct {
	Measure string
	Size    int // bytes of a message
	Time    time.Duration
}

// String is the job as it is told to a process: latency:64:200, the time in ms.
func (j Job) String() string {
	return fmt.Sprintf("%s:%d:%d", j.Measure, j.Size, j.Time.Milliseconds())
}

// Jobs is a list of jobs in the order in which they are done.
type Jobs []Job

// String is the list as it is told to a process.
func (js Jobs) String() string {
	words := make([]string, len(js))
	for i, j := range js {
		words[i] = j.String()
	}
	return strings.Join(words, ",")
}

// ParseJobs reads what String wrote.
func ParseJobs(s string) (Jobs, error) {
	var js Jobs
	for word := range strings.SplitSeq(s, ",") {
		f := strings.Split(word, ":")
		if len(f) != 3 || !slices.Contains([]string{Latency, Rate, Bandwidth, Reads}, f[0]) {
			return nil, fmt.Errorf("job %q: expected latency, rate, bandwidth or reads, bytes and milliseconds, with colons between them", word)
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

// Sizes are those of the curves, in bytes.
func Sizes(measure string) []int {
	if measure == Latency {
		return []int{16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
	}
	return []int{1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}
}

// FullJobs are the figures of the table, each for the time head, and the other points of the curves, each for the time point.
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

// HeadJobs are the figures of the table alone.
func HeadJobs(head time.Duration) Jobs {
	return Jobs{{Latency, SmallSize, head}, {Rate, SmallSize, head}, {Bandwidth, LargeSize, head}}
}

// LossJobs are what is measured where packets are lost. They get more time: a stream has to lose something before it shows
// what it makes of it, and few round trips meet a loss.
func LossJobs(head time.Duration) Jobs {
	return Jobs{{Bandwidth, LargeSize, 2 * head}, {Latency, SmallSize, 3 * head}}
}

// PageJobs are what is measured of pages: one at a time, many, and one behind the other.
func PageJobs(head time.Duration) Jobs {
	return Jobs{{Latency, PageSize, head}, {Reads, PageSize, head}, {Bandwidth, PageSize, head}}
}

// Upto leaves out what is longer than most bytes, and the measures that are not named.
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
