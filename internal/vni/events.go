package vni

import "sync/atomic"

// EventReader reads the events of a segment, each once, in their order. Any number of readers may
// read concurrently, each at its own pace: a reader is only a place in the ring.
type EventReader struct {
	s    *Segment
	next atomic.Uint64 // number of the next event to read, from 1; written under the caller's lock
}

// EventsFromNow returns a reader of later events only.
func (p *Process) EventsFromNow() *EventReader {
	r := &EventReader{s: p.s}
	r.next.Store(atomic.LoadUint64(p.s.published) + 1)
	return r
}

// Pending reports whether Next would find an event.
func (r *EventReader) Pending() bool { return atomic.LoadUint64(r.s.published) >= r.next.Load() }

// Next returns the oldest event that is still there, and the number of events lost before it. It
// must be called under the caller's lock.
func (r *EventReader) Next() (e Event, lost uint64, ok bool) {
	next := r.next.Load()
	for {
		published := atomic.LoadUint64(r.s.published)
		if next > published {
			break
		}
		if oldest := published - min(published, Events) + 1; next < oldest {
			lost += oldest - next
			next = oldest
		}
		e, ok = r.s.events[(next-1)%Events].load(next)
		next++
		if ok {
			break
		}
		lost++ // overwritten during the read
	}
	r.next.Store(next)
	return e, lost, ok
}
