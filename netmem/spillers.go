package netmem

// spillers is the number of concurrent reads and writes of the spill file.
const spillers = 4

// maxParked is the largest number of requests that may wait for pages from the spill file. A
// request to write a page has two buffers.
const maxParked = serverSpare / 6

// transfer tells the spillers the number of waiting transfers. The port's lock is held.
func (s *Server) transfer() {
	n := int32(len(s.store.transfers))
	if s.moving.Swap(n) != n && n > 0 {
		s.port.p.Runtime().Wake()
	}
}

// spills moves frames to the spill file and back until the server ends. It takes the port's lock
// only for the bookkeeping, so a slow disk delays only requests that need it. While the file uses
// the memory of a frame, the port keeps its mapping.
func (s *Server) spills() {
	o := s.port
	for o.p.Runtime().WaitUntil(o.ctx, func() bool { return s.moving.Load() > 0 }) == nil {
		o.mu.Lock()
		t, f := s.store.next(), s.store.spill.f
		s.transfer()
		if t == nil || f == nil || o.err != nil {
			o.mu.Unlock()
			continue
		}
		o.lent.Add(1)
		o.mu.Unlock()
		t.do(f)
		o.mu.Lock()
		if o.err == nil {
			s.moved(t)
		}
		o.lent.Add(-1)
		o.mu.Unlock()
		o.p.Runtime().Wake()
	}
}

// moved ends a transfer and serves the requests that waited for it. The port's lock is held.
func (s *Server) moved(t *transfer) {
	waits := s.store.finish(t)
	s.parked -= len(waits)
	for _, q := range waits {
		s.handle(q)
	}
	s.store.evictBeyond()
	s.transfer()
	s.port.sentBeside()
}

// park makes a request wait for a frame. It reports false if the request does not wait; then its
// client asks again.
func (s *Server) park(f *frame, q *request) bool {
	for i := range f.waits {
		if w := &f.waits[i]; w.m.From == q.m.From && w.record.request == q.record.request {
			return false // it already waits
		}
	}
	if s.parked == maxParked {
		return false
	}
	s.parked++
	f.waits = append(f.waits, *q)
	return true
}
