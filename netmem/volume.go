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

// VolumeConfig configures a Volume. Servers and Bytes are required.
type VolumeConfig struct {
	ClientConfig

	// Bytes is the size of the volume, a multiple of PageBytes. The servers must have room for all
	// of it in all copies; with Compress, for a quarter of that.
	Bytes int64

	// Depth is how many pages of one call may be in flight. 0 means 16.
	Depth int

	// ReadAhead is how many pages are read ahead of a sequential reader, from its third read on. 0
	// means 32, and a negative number means none.
	ReadAhead int
}

// Volume is network memory as bytes at offsets from 0 to Size. It implements io.ReaderAt and
// io.WriterAt. Bytes that were never written, or were discarded, read as zeros and take no room.
// Goroutines may share it. A call is atomic for each page, not as a whole.
//
// A write returns when its pages are on their servers, so there is no cache to flush.
type Volume struct {
	c     *Client
	bytes int64
	page  int64
	depth int
	ahead ahead
}

// Open starts a client and creates an empty volume on it. It fails with [ErrFull] if the servers
// have no room for the whole volume. Open reserves no room: volumes that fill the same servers
// later find them full. Other errors are those of [NewClient].
func Open(ctx context.Context, p *weft.Process, cfg VolumeConfig) (*Volume, error) {
	page := int64(cfg.PageBytes)
	if page == 0 {
		page = hsn.HalfPage
	}
	if cfg.Bytes <= 0 || cfg.Bytes%page != 0 {
		return nil, badArgument("netmem: a volume of %d bytes; expected a multiple of %d, the size of a page", cfg.Bytes, page)
	}
	if cfg.Depth == 0 {
		cfg.Depth = 16
	}
	if cfg.Depth < 0 {
		return nil, badArgument("netmem: Depth is %d; expected 1 or more, or 0 for 16", cfg.Depth)
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

// hoped is the compression ratio that Open expects at most. Pages that compress less find the
// servers full later.
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
		return marked{fmt.Errorf("netmem: a volume of %d bytes, %s, on servers: %d; they have room for %d%s", bytes, kept, len(c.servers), has, more), ErrFull}
	}
	return nil
}

// capacity returns how many bytes of pages the servers have room for, with each copy or shard of a
// page on another server.
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
	// The j largest servers can each hold at most one copy of every page. The other servers share
	// the remaining copies.
	least := int64(0)
	for j := 0; j < c.code.servers() && j < len(rooms); j++ {
		if n := sum / int64(c.code.servers()-j); j == 0 || n < least {
			least = n
		}
		sum -= rooms[len(rooms)-1-j]
	}
	return least / int64(placeBytes(classOf(c.code.shardBytes(c.cfg.PageBytes)))) * int64(c.cfg.PageBytes)
}

// Size returns the size of the volume in bytes.
func (v *Volume) Size() int64 { return v.bytes }

// PageBytes returns the size of a page. Reads and writes of whole pages cost least.
func (v *Volume) PageBytes() int { return int(v.page) }

// Stats returns the counters of the volume's client.
func (v *Volume) Stats() ClientStats { return v.c.Stats() }

// AddServer adds a server, as [Client.AddServer] does.
func (v *Volume) AddServer(ctx context.Context, ref ServerRef) error { return v.c.AddServer(ctx, ref) }

// RemoveServer removes a server, as [Client.RemoveServer] does.
func (v *Volume) RemoveServer(ctx context.Context, name weft.Name) error {
	return v.c.RemoveServer(ctx, name)
}

// Wait waits until the volume ends, by Close or with its process, and returns the reason. If ctx
// ends first, Wait returns ctx's error.
func (v *Volume) Wait(ctx context.Context) error {
	err := v.c.p.Runtime().WaitUntil(ctx, v.c.port.failed.Load)
	if why := v.c.Err(); why != nil {
		return why
	}
	return err
}

// Close ends the volume and discards its content.
func (v *Volume) Close() { v.c.Close() }

// ReadAt implements io.ReaderAt. It is ReadAtContext without a time limit.
func (v *Volume) ReadAt(b []byte, offset int64) (int, error) {
	return v.ReadAtContext(context.Background(), b, offset)
}

// ReadAtContext reads len(b) bytes at offset. It returns fewer bytes and io.EOF if the volume ends
// before. After any other error the content of b is undefined. A negative offset is
// [weft.ErrBadArgument]. Other errors are those of [Client.ReadPage], but for [ErrMissing].
func (v *Volume) ReadAtContext(ctx context.Context, b []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, badArgument("netmem: read at %d; expected 0 or more", offset)
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

// ReadMany reads several parts of the volume concurrently: bufs[i] from offsets[i]. It costs less
// than a call for each part, because one goroutine sends the requests and takes the answers in
// batches.
//
// ended is called once for each part with its error. A part that does not lie within the volume is
// [weft.ErrBadArgument]. If pause is not nil, it is called before ReadMany waits, if parts have
// ended since the last call. ReadMany calls both itself, one at a time.
func (v *Volume) ReadMany(ctx context.Context, bufs [][]byte, offsets []int64, ended func(i int, err error), pause func()) {
	i := -1
	v.ReadEach(ctx, func() ([]byte, int64, bool) {
		if i++; i < len(bufs) {
			return bufs[i], offsets[i], true
		}
		return nil, 0, false
	}, ended, pause)
}

// ReadEach is ReadMany for parts that arrive over time. next returns the next part, or false if
// there is none now. ReadEach calls next again whenever a part has ended, and returns when next
// returns false and no part is in flight. Parts are numbered from 0 in the order of next.
func (v *Volume) ReadEach(ctx context.Context, next func() (b []byte, offset int64, ok bool), ended func(i int, err error), pause func()) {
	v.readEach(ctx, allAtOnce, next, ended, pause)
}

// readEach is ReadEach with at most depth pages in flight.
func (v *Volume) readEach(ctx context.Context, depth int, next func() (b []byte, offset int64, ok bool), ended func(i int, err error), pause func()) {
	if pause == nil {
		pause = func() {}
	}
	m := many{v: v, next: next, ended: ended}
	r := reading{c: v.c, ctx: ctx, depth: depth, later: true, next: m.piece, ended: m.pieceEnded, pause: pause, ahead: &v.ahead,
		fails: func(w *want) error {
			if err := w.of.(*part).err; err != nil {
				return err // the part has failed already
			}
			return v.c.unusable(ctx)
		},
		slowly: func(w *want) error { return v.readPart(ctx, w.number, w.at, w.into) }}
	r.run()
}

// many is a bulk read: parts of a volume, and their pieces in each page.
type many struct {
	v      *Volume
	next   func() (b []byte, offset int64, ok bool)
	ended  func(i int, err error)
	parts  int     // begun so far
	pieces []*want // pieces of the last part that have yet to begin
}

// part is one part of a bulk read.
type part struct {
	i    int
	left int // pieces that have not ended
	err  error
}

// piece returns the next piece to read; nil if there is none now.
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

// cut cuts a part into pieces. It copies pages that were read ahead at once.
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

// pieceEnded records the end of a piece.
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

// WriteAt implements io.WriterAt. It is WriteAtContext without a time limit.
func (v *Volume) WriteAt(b []byte, offset int64) (int, error) {
	return v.WriteAtContext(context.Background(), b, offset)
}

// WriteAtContext writes b at offset. If b covers only a part of a page, WriteAtContext reads the
// rest of that page first, and may fail as [Client.ReadPage] does. A write that does not lie within
// the volume is [weft.ErrBadArgument]. Other errors are those of [Client.WritePage]. After an error
// each page has either its old or its new content.
func (v *Volume) WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	if err := v.within("write", offset, int64(len(b))); err != nil {
		return 0, err
	}
	if err := v.write(ctx, offset, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// write writes the part of b in each page. After an error it begins no more pages.
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

// Flush returns nil if the volume is usable: every write that has returned is already on its
// servers. After the end of the volume it returns the reason.
func (v *Volume) Flush(context.Context) error { return v.c.Err() }

// Discard makes n bytes at offset read as zeros, and frees the pages that lie wholly in this range.
// A range that does not lie within the volume is [weft.ErrBadArgument].
func (v *Volume) Discard(ctx context.Context, offset, n int64) error {
	if err := cmp.Or(v.within("discard", offset, n), v.c.unusable(ctx)); err != nil {
		return err
	}
	first, end := (offset+v.page-1)/v.page, (offset+n)/v.page
	if first > end || n == 0 { // within one page
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

// zero zeroes part of one page, if the page was written.
func (v *Volume) zero(ctx context.Context, offset, n int64) error {
	page := uint64(offset / v.page)
	if n == 0 || len(v.c.among(page, page+1)) == 0 {
		return nil
	}
	return v.c.patch(ctx, page, int(offset%v.page), make([]byte, n), func() { v.ahead.forget(page) })
}

// Written calls yield for each part of n bytes at offset, in order, and says whether the part was
// written. A part that was never written reads as zeros. Written ends when yield returns false. A
// range that does not lie within the volume is [weft.ErrBadArgument].
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

// firstLook is how many pages Written examines first. The number doubles each time, because a
// caller may stop early and ask again for the rest.
const firstLook = 64

// among returns the written pages from first to before end, in order.
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
		return badArgument("netmem: %s %d bytes at %d; the volume has %d", what, n, offset, v.bytes)
	}
	return nil
}

// parallel calls do with 0 to n-1, some concurrently. After the first error it starts no more calls
// and waits for those that have begun.
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
	v.c.awaits(func() bool { return left.Load() == 0 }) // they use the caller's memory
	mu.Lock()
	defer mu.Unlock()
	return failed
}
