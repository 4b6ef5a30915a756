package nbd

import (
	"context"
	"time"
)

// worker is one that does requests: the last that it has read, or short reads as long as more come while some are under way.
//
//	gather: a request ──┬─ no short read ─► do
//	                    └─ short reads, all that are here ─► readAll ─► one has ended: reply ─► short reads that are here by now ─► …
type worker struct {
	n     *conn
	mem   []*job // all that there ever were
	free  []*job // of which these are not in use
	jobs  []*job // those to be done now
	short bool   // they are short reads

	at      int    // of these the first that the device has not been told of
	parts   []*job // short reads by the number that the device knows them by
	reads   bool   // it has been asked for some
	replies [][]byte
	replied []*job // those that have ended, whose replies these are unless they have failed
	begun   time.Time
	turn    uint64 // the number under which the stand-in knows what is done in the worker's turn
	mine    bool   // the turn is the worker's still
}

// shortRead is the longest read of which others need not be told that it is read, mostShort how many of them are under way together, and
// shortFor for how long more are added to them: all share the time that a request may take.
const (
	shortRead = 64 << 10
	mostShort = 32
	shortFor  = 10 * time.Millisecond
)

// add takes memory for another request.
func (w *worker) add() *job {
	if len(w.free) == 0 {
		j := &job{n: w.n}
		w.mem, w.free = append(w.mem, j), append(w.free, j)
	}
	last := len(w.free) - 1
	j := w.free[last]
	w.free = w.free[:last]
	w.jobs = append(w.jobs, j)
	return j
}

// release gives back what its requests have.
func (w *worker) release() {
	for _, j := range w.mem {
		j.release()
	}
	w.free = append(w.free[:0], w.mem...)
	w.jobs, w.replied = w.jobs[:0], w.replied[:0]
	clear(w.parts)
	clear(w.replies)
	w.parts, w.replies, w.at, w.reads = w.parts[:0], w.replies[:0], 0, false
}

// gather reads the next request, and the short reads that have come behind it if it is one. It reports whether there is one; if not, why says why.
func (n *conn) gather(w *worker) bool {
	j := w.add()
	if !n.next(j) {
		return false
	}
	w.short = n.s.many != nil && j.isShort() && n.standIn.quick()
	for w.short && n.r.Buffered() >= requestLen && w.addShort() {
	}
	return true
}

// addShort adds the next request if it is here, a short read, and one more may be under way. It reports whether it has.
func (w *worker) addShort() bool {
	if len(w.mem)-len(w.free) >= mostShort {
		return false
	}
	j, n := w.add(), w.n
	b, err := n.r.Peek(requestLen)
	if err == nil && j.parse(b) == nil && j.isShort() && (!w.reads || n.s.budget.try(n, int(j.length))) {
		_, _ = n.r.Discard(requestLen) // which is here
		return true
	}
	w.jobs = w.jobs[:len(w.jobs)-1]
	w.free = append(w.free, j)
	return false
}

// isShort reports whether a request is a short read, and a proper one.
func (j *job) isShort() bool {
	return j.command == cmdRead && j.length <= shortRead && j.check() == nil
}

// readAll does short reads, those that have been gathered and those that come meanwhile, and replies to all that have ended each time that others have to be
// waited for. An error is the connection's. mine is whether the worker has its turn still.
func (w *worker) readAll(ctx context.Context) (mine bool, err error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, w.n.s.cfg.Timeout)
	defer cancel()
	w.reserve()
	w.begun, w.mine, w.turn = time.Now(), true, w.n.standIn.begin()
	w.reads = true
	send := func() {
		if len(w.replies) > 0 && err == nil {
			err = w.n.send(w.replies...)
		}
		w.sent()
	}
	next := func() ([]byte, int64, bool) {
		if w.at == len(w.jobs) {
			if len(w.replied) == 0 {
				return nil, 0, false
			}
			if send(); err != nil || !w.more() {
				return nil, 0, false
			}
		}
		j := w.jobs[w.at]
		w.at++
		w.parts = append(w.parts, j)
		return j.data(), int64(j.offset), true
	}
	w.n.s.many.ReadEach(ctx, next, func(i int, failure error) {
		j := w.parts[i]
		w.parts[i] = nil
		switch {
		case failure == nil:
			w.replies = append(w.replies, j.dataReply())
		case err == nil:
			err = j.failed(whole, ctx, failure)
		}
		w.replied = append(w.replied, j)
	}, send)
	send()
	if w.mine {
		w.mine = w.n.standIn.end(w.turn)
	}
	return w.mine, err
}

// reserve makes room for what is read. All is taken at once: a part would be kept from others while the rest is waited for.
func (w *worker) reserve() {
	sum := 0
	for _, j := range w.jobs {
		sum += int(j.length)
	}
	w.n.s.budget.take(w.n, sum)
	for _, j := range w.jobs {
		j.room(int(j.length))
	}
}

// sent takes back the memory of those whose replies have left.
func (w *worker) sent() {
	for _, j := range w.replied {
		j.release()
	}
	w.free = append(w.free, w.replied...)
	w.replied, w.replies = w.replied[:0], w.replies[:0]
}

// more gathers short reads that are here by now, if the worker has its turn still, and reports whether there are any.
func (w *worker) more() bool {
	n := w.n
	if w.jobs, w.at = w.jobs[:0], 0; !w.mine || time.Since(w.begun) >= shortFor {
		return false
	}
	if w.mine = n.standIn.end(w.turn); !w.mine {
		return false
	}
	n.source.now = true
	for w.addShort() {
	}
	n.source.now = false
	for _, j := range w.jobs {
		j.room(int(j.length)) // addShort has taken its budget: to wait for some while others are under way could be for ever
	}
	w.turn = n.standIn.begin()
	return len(w.jobs) > 0
}
