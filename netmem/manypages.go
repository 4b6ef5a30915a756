package netmem

import "context"

// ReadPages reads many pages, with at most depth reads in flight. A depth below 1 means 1.
// ReadPages is cheaper than a goroutine for each page that calls ReadPage, because a single
// goroutine sends the requests and receives the answers in batches.
//
// The function nextPage returns the number of the next page and a buffer of PageBytes bytes for
// this page. When there are no more pages, nextPage returns false as its last result. The buffer
// belongs to the client until ReadPages calls the function done for the page. ReadPages calls done
// once for each page, in any order, with the error that ReadPage would have returned.
//
// ReadPages calls nextPage and done in the goroutine of its caller, never concurrently. Both
// functions must return soon, and must not call the client to read, write or discard a page. The
// reason for both rules is that other calls wait for the pages in flight.
//
// If ctx or the client ends, ReadPages stops calling nextPage, waits for the pages in flight, and
// returns the error of ctx or of the client. ReadPages passes the errors of single pages to done
// and does not return them.
func (c *Client) ReadPages(
	ctx context.Context, depth int,
	nextPage func() (number uint64, buf []byte, ok bool), done func(number uint64, buf []byte, err error),
) error {
	r := reading{c: c, ctx: ctx, depth: max(depth, 1),
		slowly: func(w *want) error { return c.ReadPage(ctx, w.number, w.into) }}
	return r.each(nextPage, done)
}

// WritePages is like ReadPages, but writes the pages. The function nextPage returns the number and
// the content of the next page. The content must not change until WritePages calls the function
// done for the page. WritePages calls done with the error that WritePage would have returned.
func (c *Client) WritePages(
	ctx context.Context, depth int,
	nextPage func() (number uint64, data []byte, ok bool), done func(number uint64, data []byte, err error),
) error {
	r := reading{c: c, ctx: ctx, depth: max(depth, 1), taken: func(uint64) {},
		slowly: func(w *want) error { return c.WritePage(ctx, w.number, w.into) }}
	return r.each(nextPage, done)
}

// each reads or writes whole pages.
func (r *reading) each(
	next func() (number uint64, buf []byte, ok bool), ended func(number uint64, buf []byte, err error),
) (why error) {
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
