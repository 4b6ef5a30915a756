package nbd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// standIn takes the turn from a worker that keeps it for long, and gives it to another: the
// device may be slow, and other requests arrive meanwhile. For a while after that, no worker
// keeps its turn. A timer for each request would cost as much as this saves, so one goroutine
// checks periodically while there are requests:
//
//	worker   begin ── reads ── end: it still has its turn
//	worker   begin ── reads ─────────────────────────────────── end: it has lost its turn
//	stand-in      looks ············ looks: the same reads ── another worker gets the turn
type standIn struct {
	// Number of the reads that a worker carries out in its turn. 0: there are none, or another
	// worker got the turn.
	reads   atomic.Uint64
	number  uint64       // number of the last reads; the turn guards it
	careful atomic.Int32 // number of requests for which no worker keeps its turn
	asleep  atomic.Bool
	wake    chan struct{}
	wg      sync.WaitGroup
}

const (
	lookEvery = 2 * time.Millisecond
	restAfter = 50 // looks in a row that found no reads
	careFor   = 64 // requests
)

func (s *standIn) init() { s.wake = make(chan struct{}, 1) }

// quick reports whether a worker may keep its turn. The caller has the turn.
func (s *standIn) quick() bool {
	if n := s.careful.Load(); n > 0 {
		s.careful.Store(n - 1)
		return false
	}
	return true
}

// begin notes that a worker keeps its turn, and returns the number of its reads.
func (s *standIn) begin() uint64 {
	s.number++
	s.reads.Store(s.number)
	if s.asleep.Load() && s.asleep.Swap(false) {
		s.wake <- struct{}{}
	}
	return s.number
}

// end notes that these reads are done. It reports whether the worker still has its turn.
func (s *standIn) end(number uint64) bool { return s.reads.CompareAndSwap(number, 0) }

// stand watches the workers until ctx ends.
func (n *conn) stand(ctx context.Context) {
	s := &n.standIn
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	// The reads that the last look found, the time since when, and the number of looks in a row
	// without reads.
	last, seen, idle := uint64(0), time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			tick.Reset(lookEvery)
		case <-tick.C:
		}
		reads, now := s.reads.Load(), time.Now()
		if reads != last {
			last, seen, idle = reads, now, 0
			continue
		}
		switch idle++; {
		case reads == 0 && idle >= restAfter:
			// Otherwise some have begun that did not see this.
			if s.asleep.Store(true); s.reads.Load() == 0 || !s.asleep.Swap(false) {
				tick.Stop()
			}
		// A look may come late, and the next one directly after it.
		case reads != 0 && now.Sub(seen) >= lookEvery && s.reads.CompareAndSwap(reads, 0):
			s.careful.Store(careFor)
			n.pass(ctx)
		}
	}
}
