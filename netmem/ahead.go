package netmem

import (
	"context"
	"sync"
	"sync/atomic"
)

// ahead reads pages before they are asked for, for readers that take one behind the other:
//
//	reads ──── 0 ── 1 ── 2 ─┐ the third in a row
//	                        └► pages 3 … 3+window are fetched ──► taken by the reads that come
//
// A page stays until its last byte was read, another takes its place, or it is written. A write forgets it while no other call works on
// the page: what is fetched afterwards is fetched behind that write.
type ahead struct {
	c      *Client
	window int
	pages  uint64 // of the volume

	mu      sync.Mutex
	streams [8]stream
	turn    int
	fetched map[uint64]*fetched
	order   []uint64   // of fetched, oldest first; also some that are gone
	queue   []*fetched // yet to be read
	fetches bool       // a goroutine reads them
}

// stream is one reader.
type stream struct {
	next int64 // where it will go on
	run  int   // reads so far, one behind the other
}

// fetched is a page that is here, or under way.
type fetched struct {
	want want
	done atomic.Bool
	data []byte // once done; nil: it could not be read
}

// inOrder is the read of a stream from which on pages are read ahead of it.
const inOrder = 3

func (a *ahead) init(c *Client, window int, pages uint64) {
	a.c, a.window, a.pages, a.fetched = c, window, pages, map[uint64]*fetched{}
}

// note takes notice of a read, and reads ahead of it.
func (a *ahead) note(offset, n, pageBytes int64) {
	if a.window <= 0 || n == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stream(offset)
	s.next, s.run = offset+n, s.run+1
	if s.run < inOrder {
		return
	}
	first := uint64((offset + n + pageBytes - 1) / pageBytes)
	end := min(first+uint64(a.window), a.pages)
	if half := first + uint64(a.window/2); half < end && a.fetched[half] != nil {
		return // enough for now: a longer run costs less
	}
	var run []uint64
	for page := first; page < end; page++ {
		if a.fetched[page] == nil {
			run = append(run, page)
		}
	}
	if len(run) > 0 {
		a.fetch(run)
	}
}

// stream finds the reader that goes on at an offset, or begins with a new one. The lock is held.
func (a *ahead) stream(offset int64) *stream {
	for i := range a.streams {
		if s := &a.streams[i]; s.run > 0 && s.next == offset {
			return s
		}
	}
	a.turn = (a.turn + 1) % len(a.streams)
	a.streams[a.turn] = stream{}
	return &a.streams[a.turn]
}

// fetch has some pages be read, by a goroutine that goes on as long as there are any. The lock is held.
func (a *ahead) fetch(pages []uint64) {
	size := a.c.cfg.PageBytes
	run, mem := make([]fetched, len(pages)), make([]byte, len(pages)*size)
	for i, page := range pages {
		f := &run[i]
		f.want = want{number: page, into: mem[i*size:][:size:size], of: f}
		a.fetched[page] = f
		a.order = append(a.order, page)
		a.queue = append(a.queue, f)
	}
	for len(a.order) > len(a.streams)*a.window {
		delete(a.fetched, a.order[0])
		a.order = a.order[1:]
	}
	if !a.fetches {
		a.fetches = true
		a.c.p.Go(a.fetchAll)
	}
}

// fetchAll reads all that there is to be read.
func (a *ahead) fetchAll() {
	ctx := a.c.port.ctx
	r := reading{c: a.c, ctx: ctx, depth: allAtOnce, later: true, pause: a.c.p.Wake,
		fails:  func(*want) error { return a.c.unusable(ctx) },
		slowly: func(w *want) error { return a.c.ReadPage(ctx, w.number, w.into) }}
	r.next = func() *want {
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.queue) == 0 {
			return nil
		}
		f := a.queue[0]
		a.queue[0], a.queue = nil, a.queue[1:]
		return &f.want
	}
	r.ended = func(w *want, err error) {
		f := w.of.(*fetched)
		if err == nil {
			f.data = w.into
		}
		f.done.Store(true)
	}
	for more := true; more; {
		r.run()
		a.c.p.Wake()
		a.mu.Lock()
		more = len(a.queue) > 0
		a.fetches = more
		a.mu.Unlock()
	}
}

// find is the page that was read ahead, or is being read; nil: it is not.
func (a *ahead) find(page uint64) *fetched {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fetched[page]
}

// read takes part of a page that was read ahead, and reports whether it could.
func (a *ahead) read(ctx context.Context, page uint64, at int, part []byte) bool {
	f := a.find(page)
	if f == nil || !f.done.Load() && a.c.p.WaitUntil(ctx, f.done.Load) != nil {
		return false
	}
	return a.taken(f, &want{number: page, at: at, into: part})
}

// taken takes part of a page that is here, and reports whether it could be read.
func (a *ahead) taken(f *fetched, w *want) bool {
	if f.data == nil || w.at+len(w.into) == len(f.data) {
		a.drop(w.number, f)
	}
	return f.data != nil && copy(w.into, f.data[w.at:]) == len(w.into)
}

// drop forgets a page, unless it has been fetched anew.
func (a *ahead) drop(page uint64, f *fetched) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fetched[page] == f {
		delete(a.fetched, page)
	}
}

// forget drops a page that is about to be written.
func (a *ahead) forget(page uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.fetched, page)
}
