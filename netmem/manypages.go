package netmem

import "context"

// ReadPages reads pages for one goroutine, as many at a time as depth says, one if that is 0 or less: it asks for the next as soon as it has one. That costs less than a
// goroutine for each that calls ReadPage, since all that have come are taken in at once. next says which page is to be read, and into which
// PageBytes bytes, which are the client's until ended; it returns false when there are no more. ended is called for each page as it ends, in any
// order, with what ReadPage would have returned. ReadPages calls both, one at a time. While they run, the pages that are under way are not free for other
// calls: they must not wait for a page of the client, and calls of other goroutines for these pages wait for them. When ctx ends, or the client is
// closed or can be used no more, it does not ask next for more, and returns why when all that it has asked for have ended.
func (c *Client) ReadPages(ctx context.Context, depth int, next func() (number uint64, buf []byte, ok bool), ended func(number uint64, buf []byte, err error)) (why error) {
	r := reading{c: c, ctx: ctx, depth: max(depth, 1), slowly: func(w *want) error { return c.ReadPage(ctx, w.number, w.into) }}
	return r.each(next, ended)
}

// WritePages is ReadPages that writes: next says which page is to be written, and of which bytes, which stay as they are until ended. That is called with what
// WritePage would have returned.
func (c *Client) WritePages(ctx context.Context, depth int, next func() (number uint64, data []byte, ok bool), ended func(number uint64, data []byte, err error)) (why error) {
	r := reading{c: c, ctx: ctx, depth: max(depth, 1), taken: func(uint64) {}, slowly: func(w *want) error { return c.WritePage(ctx, w.number, w.into) }}
	return r.each(next, ended)
}

// each reads or writes whole pages.
func (r *reading) each(next func() (number uint64, buf []byte, ok bool), ended func(number uint64, buf []byte, err error)) (why error) {
	var free []*want
	r.pause = func() {}
	r.fails = func(*want) error { return nil } // none that next has given
	r.next = func() *want {
		if why = r.c.unusable(r.ctx); why != nil {
			return nil
		}
		number, buf, ok := next()
		if !ok {
			return nil
		}
		w := new(want)
		if n := len(free); n > 0 {
			w, free = free[n-1], free[:n-1]
		}
		*w = want{number: number, into: buf, aside: len(buf) != r.c.cfg.PageBytes || r.taken != nil && r.c.code.cuts()}
		return w
	}
	r.ended = func(w *want, err error) {
		number, buf := w.number, w.into
		free = append(free, w)
		ended(number, buf, err)
	}
	r.run()
	return why
}
