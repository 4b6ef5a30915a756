package nbd

import (
	"context"
)

// worker is one that does requests: the last that it has read, or all of some short reads.
type worker struct {
	n     *conn
	mem   []*job // those that there were
	jobs  []*job // those to be done now
	short bool   // they are short reads

	bufs    [][]byte // for ReadMany, as are the next
	offsets []int64
	replies [][]byte
}

// shortRead is the longest read of which others need not be told that it is read, and mostShort how many of them are done together.
const (
	shortRead = 64 << 10
	mostShort = 32
)

// add takes memory for another request.
func (w *worker) add() *job {
	if len(w.jobs) == len(w.mem) {
		w.mem = append(w.mem, &job{n: w.n})
	}
	w.jobs = w.mem[:len(w.jobs)+1]
	return w.jobs[len(w.jobs)-1]
}

// release gives back what its requests have.
func (w *worker) release() {
	for _, j := range w.jobs {
		j.release()
	}
	w.jobs = w.jobs[:0]
	clear(w.bufs)
	clear(w.replies)
}

// gather reads the next request, and the short reads that have come behind it if it is one. It reports whether there is one; if not, why says why.
func (n *conn) gather(w *worker) bool {
	j := w.add()
	if !n.next(j) {
		return false
	}
	w.short = n.s.many != nil && j.isShort() && n.standIn.quick()
	for w.short && len(w.jobs) < mostShort && n.shortComes() {
		if j := w.add(); !n.next(j) {
			return false
		}
	}
	return true
}

// shortComes reports whether a short read is here already.
func (n *conn) shortComes() bool {
	if n.r.Buffered() < requestLen {
		return false
	}
	b, err := n.r.Peek(requestLen)
	var j job
	j.n = n
	return err == nil && j.parse(b) == nil && j.isShort()
}

// isShort reports whether a request is a short read, and a proper one.
func (j *job) isShort() bool {
	return j.command == cmdRead && j.length <= shortRead && j.check() == nil
}

// readAll does short reads, and replies to all that have come each time that others have to be waited for. An error is the connection's.
func (w *worker) readAll(ctx context.Context) (err error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, w.n.s.cfg.Timeout)
	defer cancel()
	w.reserve()
	send := func() {
		if len(w.replies) > 0 && err == nil {
			err = w.n.send(w.replies...)
		}
		w.replies = w.replies[:0]
	}
	w.n.s.many.ReadMany(ctx, w.bufs, w.offsets, func(i int, failure error) {
		switch j := w.jobs[i]; {
		case failure == nil:
			w.replies = append(w.replies, j.dataReply())
		case err == nil:
			err = j.failed(whole, ctx, failure)
		}
	}, send)
	send()
	return err
}

// reserve makes room for what is read. All is taken at once: a part would be kept from others while the rest is waited for.
func (w *worker) reserve() {
	sum := 0
	w.bufs, w.offsets, w.replies = w.bufs[:0], w.offsets[:0], w.replies[:0]
	for _, j := range w.jobs {
		sum += int(j.length)
	}
	w.n.s.budget.take(sum)
	for _, j := range w.jobs {
		j.room(int(j.length))
		w.bufs, w.offsets = append(w.bufs, j.data()), append(w.offsets, int64(j.offset))
	}
}
