package netmem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
)

// VolumeConfig configures a Volume.
type VolumeConfig struct {
	ClientConfig

	// Bytes is the size of the volume, a multiple of PageBytes. The servers must have room for it in all its copies, or, if it is
	// compressed, for a quarter of it.
	Bytes int64

	// Depth is how many pages of one call are under way at a time; zero: 16.
	Depth int

	// ReadAhead is how many pages are read ahead of a reader that takes one behind the other; zero: 32; negative: none.
	ReadAhead int
}

// Volume is network memory as bytes from 0 on: an io.ReaderAt and io.WriterAt. What was never written, or was discarded, reads as zeros.
// Any number of goroutines may use it at once. A call is atomic page by page, not as a whole.
//
// A write returns when its pages are on as many servers as they have copies: there is no cache that Flush would have to empty.
type Volume struct {
	c     *Client
	bytes int64
	page  int64
	depth int
	ahead ahead
}

// Open makes a volume, which is empty, by a client of page servers on a process. It fails if the servers have no room for all of it in
// all its copies. That room is not set aside: clients that fill it together find it full.
func Open(ctx context.Context, p *weft.Process, cfg VolumeConfig) (*Volume, error) {
	page := int64(cfg.PageBytes)
	if page == 0 {
		page = hsn.HalfPage
	}
	if cfg.Bytes <= 0 || cfg.Bytes%page != 0 {
		return nil, fmt.Errorf("netmem: a volume of %d bytes; expected a multiple of %d, the size of a page", cfg.Bytes, page)
	}
	if cfg.Depth == 0 {
		cfg.Depth = 16
	}
	if cfg.Depth < 0 {
		return nil, fmt.Errorf("netmem: %d pages under way; expected 1 or more", cfg.Depth)
	}
	if cfg.ReadAhead == 0 {
		cfg.ReadAhead = 32
	}
	c, err := NewClient(ctx, p, cfg.ClientConfig)
	if err != nil {
		return nil, err
	}
	if err := c.fits(cfg.Bytes); err != nil {
		c.Close()
		return nil, err
	}
	v := &Volume{c: c, bytes: cfg.Bytes, page: page, depth: cfg.Depth}
	v.ahead.init(c, cfg.ReadAhead, uint64(cfg.Bytes/page))
	return v, nil
}

// hoped is by how much pages shrink at most that are compressed, for all that Open knows. What shrinks less finds the servers full in the
// end; what shrinks more could have had a larger volume.
const hoped = 4

// fits refuses a volume that the servers have no room for.
func (c *Client) fits(bytes int64) error {
	has, more := c.capacity(), ""
	if c.cfg.Compress {
		has *= hoped
		more = fmt.Sprintf(" that compress to 1/%d", hoped)
	}
	if bytes > has {
		kept := fmt.Sprintf("in copies: %d", c.code.servers())
		if c.code.cuts() {
			kept = fmt.Sprintf("in shards: %v", c.code)
		}
		return fmt.Errorf("netmem: a volume of %d bytes, %s, on servers: %d; they have room for %d%s", bytes, kept, len(c.servers), has, more)
	}
	return nil
}

// capacity is how many bytes of pages the servers have room for, each in as many copies or shards as the client makes, on different servers.
func (c *Client) capacity() int64 {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	var rooms []int64
	sum := int64(0)
	for _, s := range c.live() {
		rooms = append(rooms, int64(s.room))
		sum += int64(s.room)
	}
	slices.Sort(rooms)
	// One copy of all that is kept may lie on each of the j largest servers; the others share the copies that are left.
	least := int64(0)
	for j := 0; j < c.code.servers() && j < len(rooms); j++ {
		if n := sum / int64(c.code.servers()-j); j == 0 || n < least {
			least = n
		}
		sum -= rooms[len(rooms)-1-j]
	}
	return least / int64(placeBytes(classOf(c.code.shardBytes(c.cfg.PageBytes)))) * int64(c.cfg.PageBytes)
}

// Size is how many bytes the volume has.
func (v *Volume) Size() int64 { return v.bytes }

// PageBytes is the size of its pages. What is read and written in whole pages costs least.
func (v *Volume) PageBytes() int { return int(v.page) }

// Stats is what the volume's client has done so far.
func (v *Volume) Stats() ClientStats { return v.c.Stats() }

// AddServer lets the volume use another server, as [Client.AddServer] does.
func (v *Volume) AddServer(ctx context.Context, ref ServerRef) error { return v.c.AddServer(ctx, ref) }

// RemoveServer has the volume leave a server, as [Client.RemoveServer] does.
func (v *Volume) RemoveServer(ctx context.Context, name weft.Name) error {
	return v.c.RemoveServer(ctx, name)
}

// Wait waits until the volume can be used no more, since it is closed or its process has ended, and returns why, or until ctx ends.
func (v *Volume) Wait(ctx context.Context) error {
	err := v.c.p.Runtime().WaitUntil(ctx, v.c.port.failed.Load)
	if why := v.c.Err(); why != nil {
		return why
	}
	return err
}

// Close ends the volume. What it has is lost.
func (v *Volume) Close() { v.c.Close() }

// ReadAt implements io.ReaderAt.
func (v *Volume) ReadAt(b []byte, offset int64) (int, error) {
	return v.ReadAtContext(context.Background(), b, offset)
}

// ReadAtContext is ReadAt that ends with ctx. At the volume's end it returns io.EOF; an error leaves b undefined.
func (v *Volume) ReadAtContext(ctx context.Context, b []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, fmt.Errorf("netmem: read at %d; expected 0 or more", offset)
	}
	if offset >= v.bytes {
		return 0, io.EOF
	}
	if int64(len(b)) > v.bytes-offset {
		b, err = b[:v.bytes-offset], io.EOF
	}
	if at := offset % v.page; at+int64(len(b)) > v.page {
		failed, first := error(nil), true
		v.readEach(ctx, v.depth, func() ([]byte, int64, bool) {
			defer func() { first = false }()
			return b, offset, first
		}, func(_ int, err error) { failed = err }, func() {})
		if failed != nil {
			return 0, failed
		}
		return len(b), err
	}
	v.ahead.note(offset, int64(len(b)), v.page)
	if failed := v.readAhead(ctx, uint64(offset/v.page), int(offset%v.page), b); failed != nil {
		return 0, failed
	}
	return len(b), err
}

// readAhead reads part of a page, which may have been read ahead.
func (v *Volume) readAhead(ctx context.Context, page uint64, at int, part []byte) error {
	if len(part) == 0 {
		return ctx.Err()
	}
	if v.ahead.read(ctx, page, at, part) {
		return nil
	}
	return v.readPart(ctx, page, at, part)
}

// readPart reads part of a page.
func (v *Volume) readPart(ctx context.Context, page uint64, at int, part []byte) error {
	whole := part
	if len(part) < int(v.page) {
		whole = make([]byte, v.page)
	}
	err := v.c.ReadPage(ctx, page, whole)
	switch {
	case errors.Is(err, ErrMissing):
		clear(part)
		return nil
	case err == nil && len(part) < len(whole):
		copy(part, whole[at:])
	}
	return err
}

// ReadMany is ReadAtContext for several parts of the volume, all at once, which must lie within it. The caller asks for all of them and takes in what comes
// by itself, so they cost less than as many calls. ended is called for each part as it ends, and pause, unless it is nil, before ReadMany waits when
// some have ended; both by the caller.
func (v *Volume) ReadMany(ctx context.Context, bufs [][]byte, offsets []int64, ended func(i int, err error), pause func()) {
	i := -1
	v.ReadEach(ctx, func() ([]byte, int64, bool) {
		if i++; i < len(bufs) {
			return bufs[i], offsets[i], true
		}
		return nil, 0, false
	}, ended, pause)
}

// ReadEach is ReadMany for parts that need not all be known when it begins: next says which part is the next one, and whether there is one yet. It is asked
// again whenever a part has ended. When there is none, and none is under way, ReadEach returns. Parts have the numbers 0, 1, 2 … in the order of next.
func (v *Volume) ReadEach(ctx context.Context, next func() (b []byte, offset int64, ok bool), ended func(i int, err error), pause func()) {
	v.readEach(ctx, allAtOnce, next, ended, pause)
}

// readEach is ReadEach that has so many pages under way at a time.
func (v *Volume) readEach(ctx context.Context, depth int, next func() (b []byte, offset int64, ok bool), ended func(i int, err error), pause func()) {
	if pause == nil {
		pause = func() {}
	}
	m := many{v: v, next: next, ended: ended}
	r := reading{c: v.c, ctx: ctx, depth: depth, later: true, next: m.piece, ended: m.pieceEnded, pause: pause, ahead: &v.ahead,
		fails: func(w *want) error {
			if err := w.of.(*part).err; err != nil {
				return err // the part cannot be read as a whole any more
			}
			return v.c.unusable(ctx)
		},
		slowly: func(w *want) error { return v.readPart(ctx, w.number, w.at, w.into) }}
	r.run()
}

// many is parts of a volume that are read at once, and the pieces of them that lie in each page.
type many struct {
	v      *Volume
	next   func() (b []byte, offset int64, ok bool)
	ended  func(i int, err error)
	parts  int     // so far
	pieces []*want // of the last one, that have yet to begin
}

// part is one of them.
type part struct {
	i    int
	left int // pieces that have not ended
	err  error
}

// piece is the next piece that is to be read; nil: there is none yet.
func (m *many) piece() *want {
	for len(m.pieces) == 0 {
		b, offset, ok := m.next()
		if !ok {
			return nil
		}
		p := &part{i: m.parts}
		m.parts++
		if err := m.v.within("read", offset, int64(len(b))); err != nil || len(b) == 0 {
			m.ended(p.i, err)
			continue
		}
		m.v.ahead.note(offset, int64(len(b)), m.v.page)
		if m.cut(p, offset, b); p.left == 0 {
			m.ended(p.i, nil)
		}
	}
	w := m.pieces[0]
	m.pieces = m.pieces[1:]
	return w
}

// cut cuts a part into pieces, but for what was read ahead.
func (m *many) cut(p *part, offset int64, b []byte) {
	for page := m.v.page; len(b) > 0; {
		at := offset % page
		n := min(page-at, int64(len(b)))
		w := &want{number: uint64(offset / page), at: int(at), into: b[:n], of: p}
		if f := m.v.ahead.find(w.number); f == nil || !f.done.Load() || !m.v.ahead.taken(f, w) {
			w.awaits = f
			m.pieces = append(m.pieces, w)
			p.left++
		}
		offset, b = offset+n, b[n:]
	}
}

// pieceEnded notes that a piece has.
func (m *many) pieceEnded(w *want, err error) {
	p := w.of.(*part)
	if errors.Is(err, ErrMissing) {
		clear(w.into)
		err = nil
	}
	if p.err == nil {
		p.err = err
	}
	if p.left--; p.left == 0 {
		m.ended(p.i, p.err)
	}
}

// WriteAt implements io.WriterAt.
func (v *Volume) WriteAt(b []byte, offset int64) (int, error) {
	return v.WriteAtContext(context.Background(), b, offset)
}

// WriteAtContext is WriteAt that ends with ctx. Of a page of which only a part is written the rest is read first. It fails with ErrFull
// when the servers have no room; then each page reads as it was or as it should have become.
func (v *Volume) WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	if err := v.within("write", offset, int64(len(b))); err != nil {
		return 0, err
	}
	if err := v.write(ctx, offset, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// write writes what lies in each page. When one has failed no others begin.
func (v *Volume) write(ctx context.Context, offset int64, b []byte) (failed error) {
	if len(b) == 0 {
		return ctx.Err()
	}
	patch := func(w *want) error {
		return v.c.patch(ctx, w.number, w.at, w.into, func() { v.ahead.forget(w.number) })
	}
	next := func() *want {
		if len(b) == 0 {
			return nil
		}
		at := offset % v.page
		n := min(v.page-at, int64(len(b)))
		w := &want{number: uint64(offset / v.page), at: int(at), into: b[:n], aside: n < v.page || v.c.code.cuts()}
		offset, b = offset+n, b[n:]
		return w
	}
	if offset%v.page+int64(len(b)) <= v.page {
		return patch(next())
	}
	r := reading{c: v.c, ctx: ctx, depth: v.depth, next: next, slowly: patch, taken: v.ahead.forget, pause: func() {},
		fails: func(*want) error { return cmp.Or(failed, v.c.unusable(ctx)) },
		ended: func(_ *want, err error) { failed = cmp.Or(failed, err) }}
	r.run()
	return failed
}

// Flush returns when all writes that have returned are on their servers. They are before it is called, so it only fails if the volume
// can be used no more.
func (v *Volume) Flush(context.Context) error { return v.c.Err() }

// Discard makes n bytes read as zeros. The servers get back the pages that lie wholly in them.
func (v *Volume) Discard(ctx context.Context, offset, n int64) error {
	if err := cmp.Or(v.within("discard", offset, n), v.c.unusable(ctx)); err != nil {
		return err
	}
	first, end := (offset+v.page-1)/v.page, (offset+n)/v.page
	if first > end || n == 0 { // it lies within one page
		return v.zero(ctx, offset, n)
	}
	if err := v.zero(ctx, offset, first*v.page-offset); err != nil {
		return err
	}
	if err := v.zero(ctx, end*v.page, offset+n-end*v.page); err != nil {
		return err
	}
	pages := v.c.among(uint64(first), uint64(end))
	return v.parallel(ctx, len(pages), func(ctx context.Context, i int) error {
		return v.c.discard(ctx, pages[i], func() { v.ahead.forget(pages[i]) })
	})
}

// zero makes part of one page zero, if there is such a page.
func (v *Volume) zero(ctx context.Context, offset, n int64) error {
	page := uint64(offset / v.page)
	if n == 0 || len(v.c.among(page, page+1)) == 0 {
		return nil
	}
	return v.c.patch(ctx, page, int(offset%v.page), make([]byte, n), func() { v.ahead.forget(page) })
}

// Written calls yield for the parts of n bytes from offset on, in order: parts that were written, and parts that read as zeros since
// they never were. It ends when yield returns false.
func (v *Volume) Written(offset, n int64, yield func(offset, n int64, written bool) bool) error {
	if err := cmp.Or(v.within("look at", offset, n), v.c.unusable(context.Background())); err != nil {
		return err
	}
	at, end := offset, offset+n
	last := uint64((end + v.page - 1) / v.page)
	for first, look := uint64(offset/v.page), uint64(firstLook); first < last; look *= 2 {
		next := first + min(look, last-first)
		for _, page := range v.c.among(first, next) {
			from, to := max(int64(page)*v.page, offset), min(int64(page+1)*v.page, end)
			if from > at && !yield(at, from-at, false) || !yield(from, to-from, true) {
				return nil
			}
			at = to
		}
		first = next
	}
	if at < end {
		yield(at, end-at, false)
	}
	return nil
}

// firstLook is at how many pages Written looks first, and at twice as many each time: its caller may have enough of a few, and ask again for the rest.
const firstLook = 64

// among are the pages from first to before end that were written, in order.
func (c *Client) among(first, end uint64) (l []uint64) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	if end-first > uint64(len(c.pages)) {
		for n, p := range c.pages {
			if n >= first && n < end && p.version > 0 {
				l = append(l, n)
			}
		}
		slices.Sort(l)
		return l
	}
	for n := first; n < end; n++ {
		if p := c.pages[n]; p != nil && p.version > 0 {
			l = append(l, n)
		}
	}
	return l
}

func (v *Volume) within(what string, offset, n int64) error {
	if offset < 0 || n < 0 || offset > v.bytes || n > v.bytes-offset {
		return fmt.Errorf("netmem: %s %d bytes at %d; the volume has %d", what, n, offset, v.bytes)
	}
	return nil
}

// parallel calls do with 0 to n-1, some at a time. The first error ends it: what has begun ends first.
func (v *Volume) parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	if n <= 1 {
		if n == 0 {
			return ctx.Err()
		}
		return do(ctx, 0)
	}
	var (
		next, left atomic.Int32
		mu         sync.Mutex
		failed     error
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			if err := do(ctx, i); err != nil {
				mu.Lock()
				if failed == nil {
					failed = err
				}
				mu.Unlock()
				next.Store(int32(n))
				cancel()
			}
		}
	}
	helpers := min(n, v.depth) - 1
	left.Store(int32(helpers))
	for range helpers {
		v.c.p.Runtime().Go(func() {
			work()
			left.Add(-1)
			v.c.p.Runtime().Wake()
		})
	}
	work()
	v.c.awaits(func() bool { return left.Load() == 0 }) // the caller's memory is theirs
	mu.Lock()
	defer mu.Unlock()
	return failed
}
