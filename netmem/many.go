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

// reading reads many pages for one goroutine. This goroutine sends all requests that may be in
// flight and receives the answers itself, so no data pass from one goroutine to another. If a page
// needs more than one request to one server, reading calls the function slowly for it. slowly runs
// in a goroutine of its own, unless the reader has nothing else to wait for.
//
//	next ──► begin ──► in flight ──► the page has arrived: ended ──► next …
//	           │           ├─ its answer is late, damaged, no page ──┐
//	           ├─ another call works on the page, no sure copy ──────┴──► slowly ──► ended
//	           └─ the page is being read ahead ──► it has arrived: ended, or begin
type reading struct {
	c     *Client
	ctx   context.Context
	depth int

	// later is true if next may return another page after it has returned nil.
	later bool
	// next returns the next page to read, or nil. The want belongs to the reader until ended.
	next func() *want
	// fails returns the error that ends a page before it is read, if any.
	fails func(*want) error
	// slowly reads one page as a single call would.
	slowly func(*want) error
	// ended is called by run for each page. ErrMissing means that there is no such page.
	ended func(*want, error)
	// ahead holds the pages that are read ahead.
	ahead *ahead
	// pause is called before run waits, if at least one page has ended since the last call of
	// pause.
	pause func()
	// beside is true if slowly must always run in a goroutine of its own.
	beside bool
	// taken is set if pages are written, not read. It is called with the port's lock for each page,
	// when no other call works on the page any more.
	taken func(page uint64)

	fresh  []*want // to begin now
	behind []*want // to begin when the same page, in flight, has arrived
	under  []*want // in flight
	more   bool    // next may return more
	failed bool    // do not wait for missing answers
	paused bool    // nothing has ended since pause
}

// want is the part of a page that a reading reads.
type want struct {
	number uint64
	at     int // offset in the page
	into   []byte
	aside  bool     // to be read slowly
	awaits *fetched // the page is being read ahead and will be taken from there
	of     any      // for the reading's functions: what the want belongs to

	way   way
	p     *page // the reader's while its call is in flight
	call  *call
	out   *outgoing // set if the page is written; nil: it is read
	begun clock.Time
	// waited is the time that the reader has waited since begun. Time that the reader spent on
	// other work does not count, because the answer may have arrived unnoticed.
	waited time.Duration
	late   time.Duration // the answer is late after this time
	alone  *alone        // slowly reads it in a goroutine of its own
}

// alone is a read in a goroutine of its own.
type alone struct {
	done atomic.Bool
	err  error
}

// run reads all pages. It returns after all reads in flight have ended, even if ctx ends or a
// function of the caller panics.
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

// until reads pages until the function done returns true. If ctx ends first, until returns the
// error of ctx. Reads in flight continue after until has returned.
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

// abandon ends the reads that are still in flight after a panic.
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

// asksNext reports whether run should call next: another read may begin, and next may return one.
func (r *reading) asksNext() bool { return r.more && !r.busy() && len(r.under)+len(r.behind) < r.depth }

// busy reports whether new reads must wait until some reads in flight have ended. Reads that begin
// together share a packet.
func (r *reading) busy() bool { return len(r.under) > r.depth-r.depth/refill }

// begin starts reads until the largest allowed number is in flight.
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

// way is the way in which a reading reads a page.
type way uint8

const (
	wayAsked  way = iota // it was requested
	wayAhead             // it is being read ahead
	wayBehind            // this reading already reads the same page
	wayNone              // there is no such page
	waySlow
)

// start requests a page if one request can be enough. The port's lock is held.
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

// beginRead requests a page from one server. It returns false if one answer cannot be enough, or if
// another call works on the page. The port's lock is held.
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

// take handles the answers that have arrived, and reports whether there were any.
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
				r.behind = append(r.behind, w) // it is requested
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
			if w.out == nil { // a write goes on
				r.c.letGo(w)
			}
			r.readSlowly(w, false)
		default:
			i++
			continue
		}
		took = true
	}
	if took { // one wake for all
		r.c.p.Runtime().Wake()
	}
	return took
}

// leave removes the read at index i from the reads in flight.
func (r *reading) leave(i int) {
	last := len(r.under) - 1
	r.under[i], r.under[last] = r.under[last], nil
	r.under = r.under[:last]
}

// end ends a read.
func (r *reading) end(w *want, err error) {
	r.paused, w.alone = false, nil
	r.ended(w, err)
}

// finish reads a page slowly, or completes a write that is in flight.
func (r *reading) finish(w *want) error {
	if w.out != nil {
		return r.c.finishWrite(r.ctx, w)
	}
	return r.slowly(w)
}

// readSlowly reads a page slowly. It uses a goroutine of its own if there are other reads.
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

// rest calls pause if reads have ended since the last call of pause.
func (r *reading) rest() {
	if !r.paused {
		r.paused = true
		r.pause()
	}
}

// wait waits until an answer has arrived or is late, or until ctx ends.
func (r *reading) wait(ctx context.Context) (err error) {
	r.rest()
	c, within, awaits := r.c, time.Duration(0), false
	for _, w := range r.under {
		awaits = awaits || w.awaits != nil
		if w.alone == nil && w.call != nil { // the call of an alone read belongs to its goroutine
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
		c.awaits(come) // only alone reads are left
	}
	return err
}

// awaits waits for work that other goroutines do for this call, such as reads in goroutines of
// their own. These goroutines use the caller's memory, so awaits does not return early when ctx or
// the process ends. The end of ctx or of the process makes the other goroutines end.
func (c *Client) awaits(come func() bool) {
	for !come() {
		if c.p.Runtime().WaitUntil(context.Background(), come) != nil {
			_ = c.p.Runtime().Sleep(context.Background(), alonePause)
		}
	}
}

// alonePause is the pause between two checks in awaits after the process has ended.
const alonePause = 100 * time.Microsecond

// unusable returns the error of ctx, or the reason why the client has ended. It returns nil if ctx
// and the client are usable.
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

// allAtOnce is the largest number of pages of a bulk read in flight. With more, requests would only
// wait for the windows of the servers.
const allAtOnce = 64
