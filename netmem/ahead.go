package netmem

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
)

// ahead reads pages before sequential readers ask for them:
//
//	reads ──── 0 ── 1 ── 2 ─┐ the third in a row
//	                        └► pages 3 … 3+window are fetched ──► later reads take them
//
// A fetched page stays until its last byte is read, another page takes its place, or it is written.
// A write forgets the page while no other call works on it, so a later fetch sees the write.
//
// One goroutine at a time drives the fetches. Usually it is a reader that waits for such a page, so
// no page is handed from one goroutine to another. If no reader drives, attend does, because pages
// in flight are not free for other calls.
type ahead struct {
	c      *Client
	window int    // pages read ahead of a reader
	pages  uint64 // of the volume

	mu       sync.Mutex
	streams  [8]stream
	turn     int
	fetched  map[uint64]*fetched
	order    []uint64   // keys of fetched, oldest first, and some that are gone
	queue    []*fetched // not yet requested
	spare    [][]byte   // memory of finished runs
	attended bool       // attend runs

	fetching reading      // of the goroutine that drives
	driven   atomic.Bool  // a goroutine drives
	drives   atomic.Int64 // how often a goroutine began to drive
	open     atomic.Int64 // pages queued or in flight
	waiting  atomic.Int32 // readers that wait while another goroutine drives
	wanted   *weft.Gate   // opened for attend when a reader waits that does not drive
}

// stream is one sequential reader.
type stream struct {
	next int64 // offset of its next read
	run  int   // sequential reads so far
}

// fetched is a page that has arrived or is in flight.
type fetched struct {
	want want
	done atomic.Bool
	data []byte // valid once done, under the lock; nil: the read failed, or the page is gone
	gone bool   // no read finds it any more; under the lock
	run  *run
}

// run is a group of pages that are fetched together. When all pages of a run are gone, the memory
// of the run is used again. This avoids garbage collections for a sequential reader.
type run struct {
	mem  []byte
	left int // pages that are here or in flight
}

// spareRuns is the number of finished runs whose memory is kept. One reader uses two runs.
const spareRuns = 4

// inOrder is the number of sequential reads that a stream needs before its pages are read ahead.
const inOrder = 3

func (a *ahead) init(c *Client, window int, pages uint64) {
	a.c, a.window, a.pages, a.fetched, a.wanted = c, window, pages, map[uint64]*fetched{}, c.p.Runtime().NewGate()
	ctx := c.port.ctx
	a.fetching = reading{c: c, ctx: ctx, depth: allAtOnce, later: true, beside: true,
		next: a.next, ended: a.ended, pause: func() {},
		fails:  func(*want) error { return c.unusable(ctx) },
		slowly: func(w *want) error { return c.ReadPage(ctx, w.number, w.into) }}
}

// note records a read and fetches the pages after it.
func (a *ahead) note(offset, n, pageBytes int64) {
	if a.window <= 0 || n == 0 || !a.plan(offset, n, pageBytes) {
		return
	}
	if a.drive() { // otherwise the goroutine that drives begins them
		a.fetching.begin()
		a.rest()
	}
}

// plan queues pages if a read continues a stream, and reports whether it queued any.
func (a *ahead) plan(offset, n, pageBytes int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stream(offset)
	s.next, s.run = offset+n, s.run+1
	if s.run < inOrder {
		return false
	}
	first := uint64((offset + n + pageBytes - 1) / pageBytes)
	end := min(first+uint64(a.window), a.pages)
	if half := first + uint64(a.window/2); half < end && a.fetched[half] != nil {
		return false // later: a longer run costs less for each page
	}
	var run []uint64
	for page := first; page < end; page++ {
		if a.fetched[page] == nil {
			run = append(run, page)
		}
	}
	for part := range slices.Chunk(run, a.runPages()) {
		a.fetch(part)
	}
	return len(run) > 0
}

// stream returns the stream that continues at an offset, or a new one. The lock is held.
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

// fetch queues some pages. The lock is held.
func (a *ahead) fetch(pages []uint64) {
	size := a.c.cfg.PageBytes
	r, l := a.newRun(len(pages)), make([]fetched, len(pages))
	for i, page := range pages {
		f := &l[i]
		f.run = r
		f.want = want{number: page, into: r.mem[i*size:][:size:size], of: f}
		a.fetched[page] = f
		a.order = append(a.order, page)
		a.queue = append(a.queue, f)
	}
	a.open.Add(int64(len(pages)))
	for len(a.order) > len(a.streams)*a.window {
		a.leave(a.order[0], a.fetched[a.order[0]])
		a.order = a.order[1:]
	}
	if !a.attended {
		a.attended = true
		a.c.p.Runtime().Go(a.attend)
	}
}

// runPages returns the largest number of pages of a run. It is half the window, so the next run is
// requested when the reader is in the middle of the pages that were read ahead.
func (a *ahead) runPages() int { return max(a.window/2, 1) }

// newRun returns a run with memory for some pages. The lock is held.
func (a *ahead) newRun(pages int) *run {
	r := &run{left: pages}
	if n := len(a.spare); n > 0 {
		r.mem, a.spare = a.spare[n-1], a.spare[:n-1]
	} else {
		r.mem = make([]byte, a.runPages()*a.c.cfg.PageBytes)
	}
	return r
}

// leave forgets a page, unless it was fetched again. The lock is held.
func (a *ahead) leave(page uint64, f *fetched) {
	if f == nil || a.fetched[page] != f {
		return
	}
	delete(a.fetched, page)
	f.gone = true
	if f.done.Load() {
		a.release(f)
	}
}

// release frees the memory of a page that no read finds any more. The lock is held.
func (a *ahead) release(f *fetched) {
	f.data = nil
	if f.run.left--; f.run.left == 0 && len(a.spare) < spareRuns {
		a.spare = append(a.spare, f.run.mem)
	}
}

// next returns the next page to request; nil if there is none.
func (a *ahead) next() *want {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		return nil
	}
	f := a.queue[0]
	a.queue[0], a.queue = nil, a.queue[1:]
	return &f.want
}

// ended records that a page has arrived or cannot be read.
func (a *ahead) ended(w *want, err error) {
	f := w.of.(*fetched)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		f.data = w.into
	}
	f.done.Store(true)
	if f.gone {
		a.release(f)
	}
	a.open.Add(-1)
}

// drive reports whether the caller now drives the fetches. If it does, the caller must call rest
// afterwards.
func (a *ahead) drive() bool {
	if !a.driven.CompareAndSwap(false, true) {
		return false
	}
	a.drives.Add(1)
	return true
}

// rest ends the caller's turn and wakes the waiting readers.
func (a *ahead) rest() {
	a.driven.Store(false)
	if a.waiting.Load() > 0 {
		a.c.p.Runtime().Wake()
	}
}

// await waits until a page has arrived, and drives meanwhile if no other goroutine does. It reports
// whether the page has arrived.
func (a *ahead) await(ctx context.Context, f *fetched) bool {
	var err error
	for err == nil && !f.done.Load() {
		if a.drive() {
			err = a.fetching.until(ctx, f.done.Load)
			a.rest()
			continue
		}
		a.waiting.Add(1)
		err = a.c.p.Runtime().WaitUntil(ctx, func() bool { return f.done.Load() || !a.driven.Load() })
		a.waiting.Add(-1)
	}
	return f.done.Load()
}

// attendAfter is the time for which pages may be in flight before attend drives.
const attendAfter = 2 * time.Millisecond

// attend drives the fetches while pages are in flight and no reader has driven for attendAfter.
func (a *ahead) attend() {
	for a.attends() {
		before := a.drives.Load()
		ctx, cancel := a.c.p.Runtime().WithTimeout(a.c.port.ctx, attendAfter)
		late := a.wanted.Wait(ctx) != nil
		cancel()
		if late && a.c.port.ctx.Err() == nil && a.drives.Load() != before || !a.drive() {
			continue
		}
		// An error ends all fetches.
		_ = a.fetching.until(a.c.port.ctx, func() bool { return a.open.Load() == 0 })
		a.rest()
	}
}

// attends reports whether pages are queued or in flight. If not, attend ends.
func (a *ahead) attends() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attended = a.open.Load() > 0
	return a.attended
}

// find returns a page that was read ahead or is in flight; nil if there is none.
func (a *ahead) find(page uint64) *fetched {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fetched[page]
}

// read copies part of a page that was read ahead, and reports whether it could.
func (a *ahead) read(ctx context.Context, page uint64, at int, part []byte) bool {
	f := a.find(page)
	if f == nil || !a.await(ctx, f) {
		return false
	}
	return a.taken(f, &want{number: page, at: at, into: part})
}

// taken copies part of a page that has arrived, and reports whether it could.
func (a *ahead) taken(f *fetched, w *want) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	data := f.data
	took := data != nil && copy(w.into, data[w.at:]) == len(w.into)
	if data == nil || w.at+len(w.into) == len(data) {
		a.leave(w.number, f)
	}
	return took
}

// forget drops a page before a write of it.
func (a *ahead) forget(page uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leave(page, a.fetched[page])
}
