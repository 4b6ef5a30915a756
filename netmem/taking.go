package netmem

import "github.com/weftnet/weft/internal/clock"

// hasCome reports whether take would find an answer for this want.
func (w *want) hasCome() bool {
	switch {
	case w.awaits != nil:
		return w.awaits.done.Load()
	case w.alone != nil:
		return w.alone.done.Load()
	}
	return w.answered()
}

// isLate reports whether a missing answer is late: the reader has waited for it long enough, or
// hardly waits any more. If the request itself had to wait, its time starts again.
func (c *Client) isLate(w *want, now clock.Time) bool {
	if w.waited < w.late && now.Sub(w.begun) < c.cfg.Dead {
		return false
	}
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	if early(w.calls(), now.Add(-w.late)) {
		w.begun, w.waited = now, 0
		return false
	}
	return true
}

// receives handles the answer for a page and reports whether the answer was good. If a write
// continues, the write keeps the page.
func (c *Client) receives(w *want) bool {
	if w.out != nil {
		return c.wrote(w)
	}
	got, _ := c.judge(w.p, w.call, func(page []byte) { c.handed.Add(uint64(copy(w.into, page[w.at:]))) })
	c.letGo(w)
	if got {
		c.port.mu.Lock()
		c.stats.PageIns++
		c.port.mu.Unlock()
	}
	return got
}

// letGo ends a call for a page. The caller must wake the calls that wait for the page.
func (c *Client) letGo(w *want) {
	if w.out != nil {
		c.letWriteGo(w, w.calls())
		return
	}
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	c.forget(w.call)
	c.letOthers(w.number, w.p)
	w.call, w.p = nil, nil
}
