package netmem

import "context"

// ReadPages reads many pages, up to depth of them concurrently; a depth below 1 means 1. It costs
// less than a goroutine for each page, because one goroutine sends the requests and takes the
// answers in batches.
//
// next returns the number of the next page and a buffer of PageBytes, which belongs to the client
// until ended; it returns false when there are no more pages. ended is called once for each page,
// in any order, with the error that ReadPage would have returned. ReadPages calls next and ended
// itself, one at a time. Both must return soon and must not call the client for a page, because
// other calls wait for the pages in flight.
//
// If ctx ends, or the client does, ReadPages calls next no more, waits for the pages in flight, and
// returns the error. Errors of pages go to ended only.
func (c *Client) ReadPages(ctx context.Context, depth int, next func() (number uint64, buf []byte, ok bool), ended func(number uint64, buf []byte, err error)) (why error) {
	r := reading{c: c, ctx: ctx, depth: max(depth, 1), slowly: func(w *want) error { return c.ReadPage(ctx, w.number, w.into) }}
	return r.each(next, ended)
}

// WritePages writes many pages as ReadPages reads them. next returns the number and the content of
// the next page, which must not change until ended. ended gets the error that WritePage would have
// returned.
func (c *Client) WritePages(ctx context.Context, depth int, next func() (number uint64, data []byte, ok bool), ended func(number uint64, data []byte, err error)) (why error) {
	r := reading{c: c, ctx: ctx, depth: max(depth, 1), taken: func(uint64) {}, slowly: func(w *want) error { return c.WritePage(ctx, w.number, w.into) }}
	return r.each(next, ended)
}

// each reads or writes whole pages.
func (r *reading) each(next func() (number uint64, buf []byte, ok bool), ended func(number uint64, buf []byte, err error)) (why error) {
	var free []*want
	r.pause = func() {}
	r.fails = func(*want) error { return nil } // every page from next is tried
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
