// Package lateness tells a test for how long the machine has not let it run.
//
//	wanted   │ tick │ tick │ tick │             tick                │ tick │
//	          ──────────────────────────────────────────────────────────────► t
//	                                     └──────── late ───────────┘
//
// A test that holds something to a bound in real time, since users were promised that bound, would fail on a machine that
// is busy with something else or does not run at all for a while, as virtual ones do. What was late does not count: it is
// taken off. On a machine that runs every thread that wants to run that is nothing, and the bound is held to as it is.
package lateness

import (
	"sync"
	"time"
)

const (
	tick  = 2 * time.Millisecond // how often the meter wants to run
	grain = time.Millisecond     // what a timer may be late by without anything being the matter
)

// Meter adds up for how long a goroutine that wanted to run did not.
type Meter struct {
	begun time.Time

	mu   sync.Mutex
	last time.Duration // when it ran last, since begun
	sum  time.Duration
}

// Watch begins to measure, until the test ends.
func Watch(t interface{ Cleanup(func()) }) *Meter {
	m := &Meter{begun: time.Now()}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(tick):
				m.ran(time.Since(m.begun))
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return m
}

// Total returns for how long the test has not run since Watch.
func (m *Meter) Total() time.Duration { return m.until(time.Since(m.begun)) }

// ran notes that the goroutine runs.
func (m *Meter) ran(now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum += late(now - m.last)
	m.last = now
}

func (m *Meter) until(now time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sum + late(now-m.last)
}

// late is by how much a goroutine is late that ran so long ago.
func late(since time.Duration) time.Duration {
	if l := since - tick; l > grain {
		return l
	}
	return 0
}
