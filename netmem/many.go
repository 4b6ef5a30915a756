package netmem

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// want is a part of a page that is to be read with others.
type want struct {
	number uint64
	at     int // of the page
	into   []byte
	aside  bool // it is to be read slowly
	here   bool // it has been read, or there is none

	p    *page // the caller's, while its call is under way
	call *call
}

// readMany reads parts of pages, all at once: their requests leave together, and their answers are taken in by the caller. ended is called by it for
// each as it ends, and pause before it waits for others. What takes more than one question to one server is left to slowly.
//
//	begin all ──► wait ──► some have come: ended ──► pause ──► wait …
//	     └───────────┴─ busy, late, damaged ──► slowly, beside one another ──► ended
func (c *Client) readMany(ctx context.Context, ws []want, slowly func(*want) error, ended func(i int, err error), pause func()) {
	calls, wait := c.beginMany(ws, ended)
	for len(calls) > 0 {
		before := len(calls)
		for i := range ws {
			w := &ws[i]
			if w.call == nil || !w.call.done.Load() {
				continue
			}
			calls = without(calls, w.call)
			if c.receives(w) {
				ended(i, nil)
			}
		}
		if len(calls) == 0 {
			break
		}
		if len(calls) < before {
			pause()
		}
		if c.waitFor(ctx, wait, calls...) != nil {
			break
		}
	}
	c.readRest(ws, slowly, ended, pause)
}

// without takes a call from a list, whose order it does not keep.
func without(calls []*call, k *call) []*call {
	last := len(calls) - 1
	for i := range calls {
		if calls[i] == k {
			calls[i] = calls[last]
			return calls[:last]
		}
	}
	return calls
}

// beginMany asks for those pages that one server can be asked for now, and returns how long an answer may take. Pages that there are none of it ends.
func (c *Client) beginMany(ws []want, ended func(i int, err error)) (calls []*call, wait time.Duration) {
	calls = make([]*call, 0, len(ws))
	var missing []int
	c.port.mu.Lock()
	for i := range ws {
		w := &ws[i]
		p := c.pages[w.number]
		if w.aside {
			continue
		}
		if p == nil && !c.closed.Load() {
			missing = append(missing, i)
			continue
		}
		if c.closed.Load() || p.version == 0 || p.issued != p.version || p.pending != nil || c.code.cuts() {
			continue
		}
		from, _ := c.sources(p, nil)
		if len(from) == 0 || !p.busy.CompareAndSwap(false, true) {
			continue
		}
		w.p, w.call = p, c.begin(from[0], record{op: opPageIn, page: w.number}, nil)
		calls = append(calls, w.call)
		late := from[0].patience(c.cfg.Retry, max(c.cfg.Retry, c.cfg.Dead/4))
		if len(from) > 1 {
			late = from[0].patience(c.cfg.Hedge, max(c.cfg.Hedge, c.cfg.Dead/8))
		}
		wait = max(wait, late)
	}
	c.port.mu.Unlock()
	for _, i := range missing {
		ws[i].here = true
		ended(i, ErrMissing)
	}
	return calls, wait
}

// receives takes what has come for a page, and reports whether it was that.
func (c *Client) receives(w *want) bool {
	k, p := w.call, w.p
	got, _ := c.judge(p, k, func(page []byte) { c.handed.Add(uint64(copy(w.into, page[w.at:]))) })
	c.letGo(w)
	if got {
		c.port.mu.Lock()
		c.stats.PageIns++
		c.port.mu.Unlock()
	}
	w.here = got
	return got
}

// letGo ends a call for a page.
func (c *Client) letGo(w *want) {
	c.end(w.call)
	c.give(w.number, w.p)
	w.call, w.p = nil, nil
}

// readRest reads what was not read at once.
func (c *Client) readRest(ws []want, slowly func(*want) error, ended func(i int, err error), pause func()) {
	var left []int
	for i := range ws {
		if ws[i].call != nil {
			c.letGo(&ws[i])
		}
		if !ws[i].here {
			left = append(left, i)
		}
	}
	if len(left) == 0 {
		return
	}
	pause()
	errs := make([]error, len(left))
	var done atomic.Int32
	for at, i := range left[1:] {
		c.p.Go(func() {
			errs[at+1] = slowly(&ws[i])
			done.Add(1)
			c.p.Wake()
		})
	}
	errs[0] = slowly(&ws[left[0]])
	// The memory is the others' until they end, so this wait is no shorter if ctx ends: each of theirs does.
	if err := c.p.WaitUntil(context.Background(), func() bool { return int(done.Load()) == len(left)-1 }); err != nil {
		errs[0] = errors.Join(errs[0], err)
	}
	for at, i := range left {
		ended(i, errs[at])
	}
}
