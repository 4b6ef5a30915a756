package nbd

import (
	"context"
	"time"
)

// worker carries out requests: the last one that it has read, or short reads as long as more
// arrive while some are in flight.
//
//	gather: request ┬─ no short read ─► do
//	                └─ all short reads here ─► readAll ─► one ended: reply ─► more short ones ─► …
type worker struct {
	n     *conn
	mem   []*job // all jobs of the worker
	free  []*job // the jobs that are not in use
	jobs  []*job // the jobs to carry out now
	short bool   // jobs are short reads

	at      int    // the first of jobs that the device does not know yet
	parts   []*job // short reads by the number that the device uses
	reads   bool   // the device has been asked for some
	replies [][]byte
	// The jobs that have ended. replies holds their replies, except for failed jobs.
	replied []*job
	begun   time.Time
	turn    uint64 // the stand-in's number for the reads of the worker's turn
	mine    bool   // the worker still has the turn
}

// shortRead is the maximum length of a read for which no other worker is woken. mostShort is the
// maximum number of short reads in flight together. shortFor is the time for which more are added
// to them: all share the timeout of a request.
const (
	shortRead = 64 << 10
	mostShort = 32
	shortFor  = 10 * time.Millisecond
)

// add returns a job for another request.
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

// release returns the memory of all its requests.
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

// gather reads the next request and, if it is a short read, the short reads that have arrived
// after it. It reports whether there is a request. If not, n.why holds the reason.
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

// addShort adds the next request if it has arrived, is a short read, and one more may be in
// flight. It reports whether it added a request.
func (w *worker) addShort() bool {
	if len(w.mem)-len(w.free) >= mostShort {
		return false
	}
	j, n := w.add(), w.n
	b, err := n.r.Peek(requestLen)
	if err == nil && j.parse(b) == nil && j.isShort() && (!w.reads || n.s.budget.try(n, int(j.length))) {
		_, _ = n.r.Discard(requestLen) // these bytes have arrived
		return true
	}
	w.jobs = w.jobs[:len(w.jobs)-1]
	w.free = append(w.free, j)
	return false
}

// isShort reports whether a request is a valid short read.
func (j *job) isShort() bool {
	return j.command == cmdRead && j.length <= shortRead && j.check() == nil
}

// readAll carries out short reads: the gathered ones, and those that arrive meanwhile. Whenever
// it must wait for others, it replies to all that have ended. It returns errors of the
// connection. mine reports whether the worker still has its turn.
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

// reserve takes memory for the reads. It takes all at once: otherwise it would hold a part, which
// others need, while it waits for the rest.
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

// sent takes back the memory of the jobs whose replies have been sent.
func (w *worker) sent() {
	for _, j := range w.replied {
		j.release()
	}
	w.free = append(w.free, w.replied...)
	w.replied, w.replies = w.replied[:0], w.replies[:0]
}

// more gathers short reads that have arrived by now, if the worker still has its turn. It reports
// whether there are any.
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
		// addShort has taken the budget: a wait for budget while other reads are in flight might
		// never end.
		j.room(int(j.length))
	}
	w.turn = n.standIn.begin()
	return len(w.jobs) > 0
}
