package vni

import "sync/atomic"

// EventReader reads the events of a segment, each once, in their order. Any number of readers do so beside each other, at paces of their
// own: a reader is but its place in the ring.
type EventReader struct {
	s    *Segment
	next atomic.Uint64 // number of the next event to read, from 1; written under the caller's lock
}

// EventsFromNow returns a reader of the events that come later.
func (p *Process) EventsFromNow() *EventReader {
	r := &EventReader{s: p.s}
	r.next.Store(atomic.LoadUint64(p.s.published) + 1)
	return r
}

// Pending reports whether Next would find one.
func (r *EventReader) Pending() bool { return atomic.LoadUint64(r.s.published) >= r.next.Load() }

// Next reads the oldest event that is still there, and says how many were lost before it. Under the caller's lock.
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
		lost++ // overwritten while being read
	}
	r.next.Store(next)
	return e, lost, ok
}
