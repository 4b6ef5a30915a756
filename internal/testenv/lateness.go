package testenv

import (
	"sync"
	"time"
)

const (
	tick  = 2 * time.Millisecond // interval at which the meter wants to run
	grain = time.Millisecond     // a timer may be late by this much without a reason
)

// Meter measures the time for which a goroutine wanted to run and did not.
//
//	wanted   │ tick │ tick │ tick │             tick                │ tick │
//	          ──────────────────────────────────────────────────────────────► t
//	                                     └──────── late ───────────┘
//
// Some tests check a bound in real time, because Weft promises the bound to users. Such a test
// would fail on a machine that is busy with other work, or that does not run for a while, as
// virtual machines do. Therefore the test subtracts the time for which it was late. On a machine
// that runs every runnable thread, this time is zero, and the full bound applies.
type Meter struct {
	begun time.Time

	mu   sync.Mutex
	last time.Duration // last time that it ran, since begun
	sum  time.Duration
}

// WatchLateness starts a measurement, which ends with the test.
func WatchLateness(t interface{ Cleanup(func()) }) *Meter {
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

// Total returns how long the test has not run since WatchLateness.
func (m *Meter) Total() time.Duration { return m.until(time.Since(m.begun)) }

// ran records that the goroutine runs.
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

// late returns the lateness of a goroutine that last ran the given time ago.
func late(since time.Duration) time.Duration {
	if l := since - tick; l > grain {
		return l
	}
	return 0
}
