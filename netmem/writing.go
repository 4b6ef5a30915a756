package netmem

import (
	"context"
	"fmt"
	"slices"
)

// What writes many pages is a reading, too, whose pages go the other way: each goes to its servers at once, and has been written when all of them have
// answered that they have it. What takes more than that a goroutine of its own goes on with.
//
//	next ──► begin ──► under way ──► all have it: ended ──► next …
//	           │           └─ an answer is late, or another one ────► finishWrite ──► ended
//	           └─ a part of a page, or shards; another works on it, few are up ► slowly: patch ──► ended

// outgoing is what a page that is written becomes.
type outgoing struct {
	*form
	version uint64
	others  []*call // to its servers but for the first, which is the want's call
}

// beginWrite sends a page to its servers, if it is known which they are, and no other call works on it. The port's lock is held.
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

// calls are those under way.
func (w *want) calls() []*call {
	if w.out == nil {
		return []*call{w.call}
	}
	return append(w.out.others[:len(w.out.others):len(w.out.others)], w.call)
}

// answered reports whether all that is under way has its answer.
func (w *want) answered() bool {
	return w.call.done.Load() && (w.out == nil || !slices.ContainsFunc(w.out.others, func(k *call) bool { return !k.done.Load() }))
}

// wrote takes what the servers have answered, and reports whether the page is written.
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
	if len(missing) > 0 { // one has gone since
		return false
	}
	c.written(w, calls)
	return true
}

// hasVersion reports whether a server has answered that it has a version.
func (k *call) hasVersion(version uint64) bool {
	return k.answered() == nil && k.answer.status == statusOK && k.answer.version == version
}

// written has what was sent be the page, and lets go of it.
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

// finishWrite goes on with a write that has no answer yet, or another than that all servers have the page, as a write of one page does.
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
