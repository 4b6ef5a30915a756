package netmem

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
)

// reading reads pages, many at a time, for one goroutine: it asks for all that may be under way, and takes in the answers itself, so that nothing is
// handed from one goroutine to another. What takes more than one question to one server it leaves to slowly, in a goroutine of its own, unless it
// has nothing else to wait for.
//
//	next ──► begin ──► under way ──► the page has come: ended ──► next …
//	           │           ├─ its answer is late, damaged, no page ──┐
//	           ├─ another works on the page, it has no sure copy ────┴──► slowly ──► ended
//	           └─ it is being read ahead ──► it has come: ended, or begin
type reading struct {
	c     *Client
	ctx   context.Context
	depth int

	later  bool               // next may have more when something has ended, though it had no more before
	next   func() *want       // what is to be read, nil behind the last; the reader's until ended
	fails  func(*want) error  // why one need not be read any more: it ends with that
	slowly func(*want) error  // reads one as a call by itself would
	ended  func(*want, error) // called for each, by run; ErrMissing: there is no such page
	ahead  *ahead             // for what awaits a page that is read ahead
	pause  func()             // called before run waits, if some have ended since
	beside bool               // what is read slowly is read by a goroutine of its own, also if there is nothing else to wait for
	taken  func(page uint64)  // what is wanted is written, not read: called for each page that no other call works on any more, with the port's lock

	fresh  []*want // to be begun
	behind []*want // to be begun when a page that they are of, too, has come
	under  []*want // under way
	more   bool    // there may be more to be read
	failed bool    // the answers that are missing will not be waited for
	paused bool    // nothing has ended since pause
}

// want is a part of a page that is to be read with others.
type want struct {
	number uint64
	at     int // of the page
	into   []byte
	aside  bool     // it is to be read slowly
	awaits *fetched // it is being read ahead, and taken from there when it has come
	of     any      // the reader's own: what it is of

	way    way
	p      *page // the reader's, while its call is under way
	call   *call
	out    *outgoing // it is written; nil: it is read
	begun  clock.Time
	waited time.Duration // for how long the reader has waited since: what has come while it did something else has yet to be taken in
	late   time.Duration // after which its answer is
	alone  *alone        // it is read slowly, in a goroutine of its own
}

// alone is a read that is not the reader's.
type alone struct {
	done atomic.Bool
	err  error
}

// run reads all that there is. What has begun ends, also when the context has, and when a function of the reader's panics.
func (r *reading) run() {
	defer r.abandon()
	r.paused, r.more = true, true
	for r.more || len(r.under)+len(r.behind) > 0 {
		r.begin()
		if len(r.under) > 0 && !r.take() && !r.asksNext() {
			r.failed = r.wait(r.ctx) != nil || r.failed
		}
	}
}

// until is run until done, and no longer than ctx: it returns its error then. What is under way stays so.
func (r *reading) until(ctx context.Context, done func() bool) error {
	for !done() {
		r.begin()
		if len(r.under) == 0 || r.take() || r.asksNext() {
			continue
		}
		if err := r.wait(ctx); err != nil {
			if ctx != r.ctx && r.c.unusable(r.ctx) == nil {
				return err
			}
			r.failed = true
		}
	}
	return nil
}

// abandon lets go of what is under way: nothing is when run returns, but something may be when it panics.
func (r *reading) abandon() {
	for len(r.under) > 0 {
		w := r.under[0]
		switch {
		case w.alone != nil:
			r.c.awaits(w.hasCome)
		case w.call != nil:
			r.c.letGo(w)
		}
		r.leave(0)
	}
}

// asksNext reports whether one more may be begun, and there may be one.
func (r *reading) asksNext() bool { return r.more && !r.busy() && len(r.under)+len(r.behind) < r.depth }

// busy reports whether so many are under way that the next ones wait for some to end: those that begin together are asked for by one packet.
func (r *reading) busy() bool { return len(r.under) > r.depth-r.depth/refill }

// begin begins as many as may be under way.
func (r *reading) begin() {
	if r.more = r.more || r.later; r.busy() {
		return
	}
	r.fresh, r.behind = append(r.fresh[:0], r.behind...), r.behind[:0]
	for r.more && len(r.under)+len(r.fresh) < r.depth {
		w := r.next()
		if r.more = w != nil; !r.more {
			break
		}
		if err := r.fails(w); err != nil {
			r.end(w, err)
			continue
		}
		r.fresh = append(r.fresh, w)
	}
	if len(r.fresh) == 0 {
		return
	}
	for _, w := range r.fresh {
		if r.taken != nil && !w.aside {
			w.out = &outgoing{form: r.c.form(w.into)}
		}
	}
	r.c.port.mu.Lock()
	r.c.collect()
	for _, w := range r.fresh {
		w.way = r.start(w)
	}
	r.c.depart()
	r.c.port.mu.Unlock()
	for i, w := range r.fresh {
		switch w.way {
		case wayNone:
			r.end(w, ErrMissing)
		case waySlow:
			if w.out != nil {
				r.c.giveBack(w.out.mem)
				w.out = nil
			}
			r.readSlowly(w, i+1 < len(r.fresh))
		}
	}
}

// way is how a page is read.
type way uint8

const (
	wayAsked  way = iota // it was asked for
	wayAhead             // it is being read ahead
	wayBehind            // the page is being read for another of the reader's
	wayNone              // there is no such page
	waySlow
)

// start asks for a page, if it can. The port's lock is held.
func (r *reading) start(w *want) way {
	switch p := r.c.pages[w.number]; {
	case w.aside:
		return waySlow
	case w.out != nil:
		if !r.c.beginWrite(w) {
			return waySlow
		}
		r.taken(w.number)
		r.under = append(r.under, w)
		return wayAsked
	case w.awaits != nil:
		r.under = append(r.under, w)
		return wayAhead
	case p == nil && !r.c.closed.Load() && r.c.port.err == nil:
		return wayNone
	case p != nil && p.busy.Load() && slices.ContainsFunc(r.under, func(o *want) bool { return o.p == p }):
		r.behind = append(r.behind, w)
		return wayBehind
	case p == nil || !r.c.beginRead(w):
		return waySlow
	}
	r.under = append(r.under, w)
	return wayAsked
}

// beginRead asks a server for a page, if one answer of one that is up can be the page, and no other call works on it. The port's lock is held.
func (c *Client) beginRead(w *want) bool {
	p := c.pages[w.number]
	if c.closed.Load() || p.version == 0 || p.issued != p.version || p.pending != nil || c.code.cuts() {
		return false
	}
	from := c.good(p, c.found[:0])
	if c.found = from[:0]; len(from) > 0 {
		nearest(from)
	} else {
		from, _ = c.sources(p, nil)
	}
	if len(from) == 0 || !p.busy.CompareAndSwap(false, true) {
		return false
	}
	p.stirred = false
	w.p, w.call, w.waited = p, c.begin(from[0], record{op: opPageIn, page: w.number}, nil), 0
	w.begun = w.call.begun
	w.late = from[0].patience(c.cfg.Retry, max(c.cfg.Retry, c.cfg.Dead/4))
	if len(from) > 1 {
		w.late = from[0].patience(c.cfg.Hedge, max(c.cfg.Hedge, c.cfg.Dead/8))
	}
	return true
}

// take takes what has come, and reports whether anything has.
func (r *reading) take() (took bool) {
	now := r.c.port.now()
	for i := 0; i < len(r.under); {
		w := r.under[i]
		switch {
		case w.alone != nil && !w.alone.done.Load():
			i++
			continue
		case w.alone != nil:
			r.leave(i)
			r.end(w, w.alone.err)
		case w.awaits != nil && (w.awaits.done.Load() || r.failed):
			f := w.awaits
			r.leave(i)
			if w.awaits = nil; f.done.Load() && r.ahead.taken(f, w) {
				r.end(w, nil)
			} else {
				r.behind = append(r.behind, w) // it is asked for
			}
		case w.call != nil && w.answered():
			r.leave(i)
			if r.c.receives(w) {
				r.end(w, nil)
			} else {
				r.readSlowly(w, false)
			}
		case w.call != nil && (r.failed || r.c.isLate(w, now)):
			r.leave(i)
			if w.out == nil { // what is written goes on
				r.c.letGo(w)
			}
			r.readSlowly(w, false)
		default:
			i++
			continue
		}
		took = true
	}
	if took { // once for all
		r.c.p.Runtime().Wake()
	}
	return took
}

// leave takes one from those that are under way.
func (r *reading) leave(i int) {
	last := len(r.under) - 1
	r.under[i], r.under[last] = r.under[last], nil
	r.under = r.under[:last]
}

// end ends one.
func (r *reading) end(w *want, err error) {
	r.paused, w.alone = false, nil
	r.ended(w, err)
}

// finish reads one slowly, or writes it; a write that is under way it goes on with.
func (r *reading) finish(w *want) error {
	if w.out != nil {
		return r.c.finishWrite(r.ctx, w)
	}
	return r.slowly(w)
}

// readSlowly reads one slowly: beside the others if there are any, under way or to be begun.
func (r *reading) readSlowly(w *want, others bool) {
	if !others && !r.beside && len(r.under) == 0 && (!r.more || r.depth == 1) {
		r.rest()
		r.end(w, r.finish(w))
		return
	}
	a := new(alone)
	w.alone = a
	r.under = append(r.under, w)
	r.c.p.Runtime().Go(func() {
		a.err = r.finish(w)
		a.done.Store(true)
		r.c.p.Runtime().Wake()
	})
}

// rest calls pause, if there is a reason.
func (r *reading) rest() {
	if !r.paused {
		r.paused = true
		r.pause()
	}
}

// wait waits until something has come, or is late, and no longer than ctx.
func (r *reading) wait(ctx context.Context) (err error) {
	r.rest()
	c, within, awaits := r.c, time.Duration(0), false
	for _, w := range r.under {
		awaits = awaits || w.awaits != nil
		if w.alone == nil && w.call != nil { // the call of one that is alone is its goroutine's
			if left := max(w.late-w.waited, 1); within == 0 || left < within {
				within = left
			}
		}
	}
	if awaits {
		r.ahead.wanted.Open()
	}
	come := func() bool { return slices.ContainsFunc(r.under, (*want).hasCome) }
	switch {
	case within > 0:
		since := c.port.now()
		if err = c.waitUntil(ctx, within, come); errors.Is(err, errLate) {
			err = nil
		}
		took := c.port.now().Sub(since)
		for _, w := range r.under {
			w.waited += took
		}
	case awaits || ctx != r.ctx && !r.failed:
		err = c.p.Runtime().WaitUntil(ctx, come)
	default:
		c.awaits(come) // all that are left are read alone
	}
	return err
}

// awaits waits for calls that other goroutines make for a call, such as reads that are alone. Their memory is theirs until they end, so that this wait is no shorter if
// the context ends, or if the process does: each of them is.
func (c *Client) awaits(come func() bool) {
	for !come() {
		if c.p.Runtime().WaitUntil(context.Background(), come) != nil {
			_ = c.p.Runtime().Sleep(context.Background(), alonePause)
		}
	}
}

// alonePause is after what time it is looked again whether calls have ended whose process has.
const alonePause = 100 * time.Microsecond

// unusable is why the client can be used no more, or not within ctx.
func (c *Client) unusable(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case c.closed.Load():
		return weft.ErrClosed
	case c.port.failed.Load():
		return c.Err()
	}
	return nil
}

// allAtOnce is how many pages are under way at a time that are wanted all at once: no more requests than fill the windows of the servers need wait in line.
const allAtOnce = 64
