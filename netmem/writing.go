package netmem

import (
	"context"
	"fmt"
	"slices"
)

// A bulk write is a reading in the other direction: it sends each page to its servers at once, and
// the page is written when all of them have answered. If a page needs more than that, a goroutine
// of its own completes the write.
//
//	next ──► begin ──► in flight ──► all servers have it: ended ──► next …
//	           │           └─ an answer is late, or not a success ──► finishWrite ──► ended
//	           └─ part of a page, shards, page in use, few servers ► slowly: patch ──► ended

// outgoing is a page that is being written.
type outgoing struct {
	*form
	version uint64
	others  []*call // to all its servers but the first, whose call is the want's
}

// beginWrite sends a page to its servers, if enough are known and no other call works on the page.
// The port's lock is held.
func (c *Client) beginWrite(w *want) bool {
	p := c.pages[w.number]
	if c.closed.Load() || c.port.err != nil || p != nil && p.busy.Load() {
		return false
	}
	if p == nil {
		p = &page{}
	}
	to := c.candidates(p, w.number, nil, nil, make([]uint8, c.code.servers()))
	if p.pending != nil || len(to) < c.code.servers() {
		return false
	}
	c.pages[w.number] = p
	p.busy.Store(true)
	p.stirred = true
	c.version++
	p.issued, w.out.version = c.version, c.version
	r := record{op: opPageOut, page: w.number, version: c.version}
	for i, t := range to {
		var data []byte
		r.shape, data = w.out.shardOf(0)
		k := c.begin(t.to, r, data)
		if i == 0 {
			w.call = k
		} else {
			w.out.others = append(w.out.others, k)
		}
		w.late = max(w.late, t.to.patience(c.cfg.Retry, max(c.cfg.Retry, c.cfg.Dead/4)))
	}
	w.p, w.begun, w.waited = p, w.call.begun, 0
	return true
}

// calls returns the calls in flight.
func (w *want) calls() []*call {
	if w.out == nil {
		return []*call{w.call}
	}
	return append(w.out.others[:len(w.out.others):len(w.out.others)], w.call)
}

// answered reports whether all calls in flight have their answers.
func (w *want) answered() bool {
	return w.call.done.Load() && (w.out == nil ||
		!slices.ContainsFunc(w.out.others, func(k *call) bool { return !k.done.Load() }))
}

// wrote takes the answers of the servers, and reports whether the page is written.
func (c *Client) wrote(w *want) bool {
	calls := w.calls()
	if slices.ContainsFunc(calls, func(k *call) bool { return !k.hasVersion(w.out.version) }) {
		return false
	}
	c.port.mu.Lock()
	for _, k := range calls {
		c.tookOut(w.p, k, w.out.version, target{to: k.to})
	}
	_, missing := c.placed(w.p, w.out.version)
	c.port.mu.Unlock()
	if len(missing) > 0 { // a server has gone since
		return false
	}
	c.written(w, calls)
	return true
}

// hasVersion reports whether a server has answered that it has a version.
func (k *call) hasVersion(version uint64) bool {
	return k.answered() == nil && k.answer.status == statusOK && k.answer.version == version
}

// written makes the sent version the acknowledged one, and ends the write.
func (c *Client) written(w *want, calls []*call) {
	c.port.mu.Lock()
	c.moveOn(w.p, w.out.version, w.out.form)
	c.stats.PageOuts++
	c.port.mu.Unlock()
	c.letWriteGo(w, calls)
}

// letWriteGo ends a write.
func (c *Client) letWriteGo(w *want, calls []*call) {
	for _, k := range calls {
		c.end(k)
	}
	c.giveBack(w.out.mem)
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	c.letOthers(w.number, w.p)
	w.call, w.p, w.out = nil, nil, nil
}

// finishWrite completes a write that has no answer yet, or a failed one, as a write of one page
// does.
func (c *Client) finishWrite(ctx context.Context, w *want) error {
	calls, tried, full := w.calls(), map[*server]bool{}, false
	for _, k := range calls {
		tried[k.to] = true
		c.finish(ctx, k)
		c.suspect(k)
		c.port.mu.Lock()
		full = c.tookOut(w.p, k, w.out.version, target{to: k.to}) || full
		c.port.mu.Unlock()
	}
	err := c.spread(ctx, w.p, record{op: opPageOut, page: w.number, version: w.out.version}, w.out.form, tried, full)
	if err != nil {
		c.letWriteGo(w, calls)
		return fmt.Errorf("netmem: write page %d: %w", w.number, err)
	}
	c.written(w, calls)
	return nil
}
