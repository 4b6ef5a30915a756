package nbd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// standIn gives the turn of a worker that keeps it for long to another: the device may be slow, and other requests come meanwhile. For a while after that
// no worker keeps its turn. A timer for each request would cost as much as is won, so one goroutine looks now and then while there are requests:
//
//	worker   begin ── reads ── end: it has its turn still
//	worker   begin ── reads ─────────────────────────────────── end: it has not
//	stand-in      looks ············ looks: the same reads ── the turn is given to another
type standIn struct {
	reads   atomic.Uint64 // the number of those that a worker does in its turn; 0: none does, or its turn was given away
	number  uint64        // of the last; it goes with the turn
	careful atomic.Int32  // requests for which no worker keeps its turn
	asleep  atomic.Bool
	wake    chan struct{}
	wg      sync.WaitGroup
}

const (
	lookEvery = 2 * time.Millisecond
	restAfter = 50 // looks that have found no reads
	careFor   = 64 // requests
)

func (s *standIn) init() { s.wake = make(chan struct{}, 1) }

// quick reports whether a worker may keep its turn. The caller has it.
func (s *standIn) quick() bool {
	if n := s.careful.Load(); n > 0 {
		s.careful.Store(n - 1)
		return false
	}
	return true
}

// begin notes that a worker keeps its turn, and returns the number of what it does.
func (s *standIn) begin() uint64 {
	s.number++
	s.reads.Store(s.number)
	if s.asleep.Load() && s.asleep.Swap(false) {
		s.wake <- struct{}{}
	}
	return s.number
}

// end notes that it is done. It reports whether the worker has its turn still.
func (s *standIn) end(number uint64) bool { return s.reads.CompareAndSwap(number, 0) }

// stand looks after the workers until ctx ends.
func (n *conn) stand(ctx context.Context) {
	s := &n.standIn
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last, seen, idle := uint64(0), time.Now(), 0 // which reads the last look has found, since when, and how many looks in a row none
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
			if s.asleep.Store(true); s.reads.Load() == 0 || !s.asleep.Swap(false) { // else some have begun that did not see this
				tick.Stop()
			}
		case reads != 0 && now.Sub(seen) >= lookEvery && s.reads.CompareAndSwap(reads, 0): // a look may come late, and the next right behind it
			s.careful.Store(careFor)
			n.pass(ctx)
		}
	}
}
