package netmem

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
)

// ahead reads pages before they are asked for, for readers that take one behind the other:
//
//	reads ──── 0 ── 1 ── 2 ─┐ the third in a row
//	                        └► pages 3 … 3+window are fetched ──► taken by the reads that come
//
// A page stays until its last byte was read, another takes its place, or it is written. A write forgets it while no other call works on
// the page: what is fetched afterwards is fetched behind that write.
//
// What fetches is driven by one goroutine at a time. It is a reader that waits for such a page, so that nothing is handed from one goroutine to another. The
// pages that no reader waits for are fetched by attend, since they are not free for other calls meanwhile.
type ahead struct {
	c      *Client
	window int
	pages  uint64 // of the volume

	mu       sync.Mutex
	streams  [8]stream
	turn     int
	fetched  map[uint64]*fetched
	order    []uint64   // of fetched, oldest first; also some that are gone
	queue    []*fetched // yet to be read
	spare    [][]byte   // memory of runs
	attended bool       // attend runs

	fetching reading      // of the goroutine that drives
	driven   atomic.Bool  // there is one
	drives   atomic.Int64 // how often one has begun
	open     atomic.Int64 // pages that have yet to come
	waiting  atomic.Int32 // readers that wait beside the one that drives
	wanted   *weft.Gate   // opened for attend: one waits that does not drive
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
	data []byte // once done, under the lock; nil: it could not be read, or has gone
	gone bool   // no read finds it any more; under the lock
	run  *run
}

// run is some pages that are fetched together. Their memory is used for others when none of them is left: a reader in order would else keep the collector at work.
type run struct {
	mem  []byte
	left int // pages that are here or under way
}

// spareRuns is for how many runs memory is kept: one reader has two.
const spareRuns = 4

// inOrder is the read of a stream from which on pages are read ahead of it.
const inOrder = 3

func (a *ahead) init(c *Client, window int, pages uint64) {
	a.c, a.window, a.pages, a.fetched, a.wanted = c, window, pages, map[uint64]*fetched{}, c.p.Runtime().NewGate()
	ctx := c.port.ctx
	a.fetching = reading{c: c, ctx: ctx, depth: allAtOnce, later: true, beside: true, next: a.next, ended: a.ended, pause: func() {},
		fails:  func(*want) error { return c.unusable(ctx) },
		slowly: func(w *want) error { return c.ReadPage(ctx, w.number, w.into) }}
}

// note takes notice of a read, and reads ahead of it.
func (a *ahead) note(offset, n, pageBytes int64) {
	if a.window <= 0 || n == 0 || !a.plan(offset, n, pageBytes) {
		return
	}
	if a.drive() { // else the one that drives begins them
		a.fetching.begin()
		a.rest()
	}
}

// plan has pages be fetched if a read is one of a row, and reports whether there are any.
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
		return false // enough for now: a longer run costs less
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

// fetch has some pages be read. The lock is held.
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

// runPages is how many pages are fetched together, at most: the reader has come to the middle of what was read ahead when others are.
func (a *ahead) runPages() int { return max(a.window/2, 1) }

// newRun is a run of some pages. The lock is held.
func (a *ahead) newRun(pages int) *run {
	r := &run{left: pages}
	if n := len(a.spare); n > 0 {
		r.mem, a.spare = a.spare[n-1], a.spare[:n-1]
	} else {
		r.mem = make([]byte, a.runPages()*a.c.cfg.PageBytes)
	}
	return r
}

// leave forgets a page, unless it has been fetched anew. The lock is held.
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

// release lets go of the memory of a page that no read finds any more. The lock is held.
func (a *ahead) release(f *fetched) {
	f.data = nil
	if f.run.left--; f.run.left == 0 && len(a.spare) < spareRuns {
		a.spare = append(a.spare, f.run.mem)
	}
}

// next is the page that is to be read next.
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

// ended notes that a page has come, or cannot be read.
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

// drive reports whether the caller drives now. rest must follow.
func (a *ahead) drive() bool {
	if !a.driven.CompareAndSwap(false, true) {
		return false
	}
	a.drives.Add(1)
	return true
}

// rest has another go on that waits.
func (a *ahead) rest() {
	a.driven.Store(false)
	if a.waiting.Load() > 0 {
		a.c.p.Runtime().Wake()
	}
}

// await waits until a page has come, and drives meanwhile if no other does. It reports whether it has.
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

// attendAfter is for how long pages may be under way that no reader waits for.
const attendAfter = 2 * time.Millisecond

// attend drives where no reader has for a while, as long as pages are under way.
func (a *ahead) attend() {
	for a.attends() {
		before := a.drives.Load()
		ctx, cancel := a.c.p.Runtime().WithTimeout(a.c.port.ctx, attendAfter)
		late := a.wanted.Wait(ctx) != nil
		cancel()
		if late && a.c.port.ctx.Err() == nil && a.drives.Load() != before || !a.drive() {
			continue
		}
		_ = a.fetching.until(a.c.port.ctx, func() bool { return a.open.Load() == 0 }) // it ends with all of them
		a.rest()
	}
}

// attends reports whether there is something to attend to; if not, attend ends.
func (a *ahead) attends() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attended = a.open.Load() > 0
	return a.attended
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
	if f == nil || !a.await(ctx, f) {
		return false
	}
	return a.taken(f, &want{number: page, at: at, into: part})
}

// taken takes part of a page that is here, and reports whether it could be read.
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

// forget drops a page that is about to be written.
func (a *ahead) forget(page uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leave(page, a.fetched[page])
}
