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

// VolumeConfig configures a Volume. Only Servers and Bytes are required.
type VolumeConfig struct {
	ClientConfig

	// Bytes is the size of the volume in bytes, a multiple of PageBytes. The servers must have room
	// for all copies or shards of the whole volume. If Compress is true, room for a quarter of
	// these copies or shards is enough.
	Bytes int64

	// Depth is the largest number of pages that one call may have in flight. ReadMany and ReadEach
	// do not use Depth. 0 means 16.
	Depth int

	// ReadAhead is the number of pages that the volume reads ahead of a sequential reader. The
	// volume starts to read ahead at the third sequential read. 0 means 32. If ReadAhead is
	// negative, the volume does not read ahead.
	ReadAhead int
}

// Volume is network memory that holds bytes at offsets, from 0 to Size. It implements io.ReaderAt
// and io.WriterAt. Bytes that were never written, and bytes that were discarded, read as zeros and
// take no room. Several goroutines may use a Volume concurrently. A call is atomic on each single
// page, but not on several pages together.
//
// A write returns when its pages are on their servers, so there is no cache to flush.
type Volume struct {
	c     *Client
	bytes int64
	page  int64
	depth int
	ahead ahead
}

// Open starts a client on the process p and creates an empty volume on the servers of the client.
// Open fails with [ErrFull] if the servers have no room for the whole volume. Open does not reserve
// this room. If several volumes share the servers, a later write can still fail with ErrFull. The
// other errors of Open are the errors of [NewClient].
func Open(ctx context.Context, p *weft.Process, cfg VolumeConfig) (*Volume, error) {
	page := int64(cfg.PageBytes)
	if page == 0 {
		page = hsn.HalfPage
	}
	if cfg.Bytes <= 0 || cfg.Bytes%page != 0 {
		return nil, badArgument("netmem: a volume of %d bytes; expected a multiple of %d, the size of a page",
			cfg.Bytes, page)
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

// hoped is the compression ratio that Open assumes. If the pages compress less, later writes find
// the servers full.
const hoped = 4

// fits returns an error if the servers have no room for a volume of this size.
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
		return marked{fmt.Errorf("netmem: a volume of %d bytes, %s, on servers: %d; they have room for %d%s",
			bytes, kept, len(c.servers), has, more), ErrFull}
	}
	return nil
}

// capacity returns the number of bytes of pages that the servers have room for. All copies or
// shards of a page must be on different servers.
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

// PageBytes returns the size of a page in bytes. Reads and writes of whole pages cost the least.
func (v *Volume) PageBytes() int { return int(v.page) }

// Stats returns the state and the counters of the volume's client.
func (v *Volume) Stats() ClientStats { return v.c.Stats() }

// AddServer adds a server to the volume's client. See [Client.AddServer].
func (v *Volume) AddServer(ctx context.Context, ref ServerRef) error { return v.c.AddServer(ctx, ref) }

// RemoveServer removes a server from the volume's client. See [Client.RemoveServer].
func (v *Volume) RemoveServer(ctx context.Context, name weft.Name) error {
	return v.c.RemoveServer(ctx, name)
}

// Wait waits until the volume ends and returns the reason. A volume ends when Close is called or
// when its process ends. If ctx ends first, Wait returns the error of ctx.
func (v *Volume) Wait(ctx context.Context) error {
	err := v.c.p.Runtime().WaitUntil(ctx, v.c.port.failed.Load)
	if why := v.c.Err(); why != nil {
		return why
	}
	return err
}

// Close ends the volume and discards its content.
func (v *Volume) Close() { v.c.Close() }

// ReadAt implements io.ReaderAt. It calls ReadAtContext with a context that never ends.
func (v *Volume) ReadAt(b []byte, offset int64) (int, error) {
	return v.ReadAtContext(context.Background(), b, offset)
}

// ReadAtContext reads len(b) bytes from offset on into b. If offset+len(b) is larger than the size
// of the volume, ReadAtContext reads only the bytes within the volume, and returns the number of
// these bytes and [io.EOF]. ReadAtContext fails with [weft.ErrBadArgument] if offset is negative.
// ReadAtContext can also fail with the errors of [Client.ReadPage] except [ErrMissing], because a
// missing page reads as zeros. After an error other than io.EOF, the content of b is undefined.
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

// readAhead reads part of a page. It uses the page that was read ahead, if there is one.
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

// ReadMany reads several parts of the volume concurrently. It reads part i at offsets[i] into
// bufs[i]. ReadMany costs less than one call for each part, because one goroutine sends the
// requests and receives the answers in batches.
//
// ReadMany calls the function done once for each part, with the index and the error of the part.
// The error is nil if ReadMany has read the part. The error is [weft.ErrBadArgument] if the part
// does not lie within the volume. If at least one part has ended since the last call of the
// function beforeWait, ReadMany calls beforeWait before it waits for answers. The argument
// beforeWait may be nil. ReadMany calls done and beforeWait in the goroutine of its caller, never
// concurrently.
func (v *Volume) ReadMany(
	ctx context.Context, bufs [][]byte, offsets []int64, done func(i int, err error), beforeWait func(),
) {
	i := -1
	v.ReadEach(ctx, func() ([]byte, int64, bool) {
		if i++; i < len(bufs) {
			return bufs[i], offsets[i], true
		}
		return nil, 0, false
	}, done, beforeWait)
}

// ReadEach is like ReadMany, but calls the function nextPart to get the parts one by one. nextPart
// returns the buffer and the offset of the next part. If there is no next part at the moment,
// nextPart returns false as its last result. Each time the read of a part has ended, ReadEach calls
// nextPart again. ReadEach returns when nextPart returns false while no part is in flight. ReadEach
// numbers the parts from 0, in the order in which nextPart returns them.
func (v *Volume) ReadEach(
	ctx context.Context, nextPart func() (b []byte, offset int64, ok bool),
	done func(i int, err error), beforeWait func(),
) {
	v.readEach(ctx, allAtOnce, nextPart, done, beforeWait)
}

// readEach is like ReadEach, but with at most depth pages in flight.
func (v *Volume) readEach(
	ctx context.Context, depth int,
	next func() (b []byte, offset int64, ok bool), ended func(i int, err error), pause func(),
) {
	if pause == nil {
		pause = func() {}
	}
	m := many{v: v, next: next, ended: ended}
	r := reading{c: v.c, ctx: ctx, depth: depth, later: true,
		next: m.piece, ended: m.pieceEnded, pause: pause, ahead: &v.ahead,
		fails: func(w *want) error {
			if err := w.of.(*part).err; err != nil {
				return err // the part has failed already
			}
			return v.c.unusable(ctx)
		},
		slowly: func(w *want) error { return v.readPart(ctx, w.number, w.at, w.into) }}
	r.run()
}

// many is a bulk read. It divides parts of a volume into pieces, one for each page.
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

// piece returns the next piece to read, or nil if there is none now.
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

// cut cuts a part into pieces. If a page of the part was read ahead, cut copies it at once.
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

// pieceEnded records that a piece has ended.
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

// WriteAt implements io.WriterAt. It calls WriteAtContext with a context that never ends.
func (v *Volume) WriteAt(b []byte, offset int64) (int, error) {
	return v.WriteAtContext(context.Background(), b, offset)
}

// WriteAtContext writes b to the volume from offset on. If b covers only a part of a page,
// WriteAtContext first reads the rest of this page, and then it can also fail with the errors of
// [Client.ReadPage]. WriteAtContext fails with [weft.ErrBadArgument] if b does not fit into the
// volume at offset. WriteAtContext can also fail with the errors of [Client.WritePage]. After an
// error, each page has either its old or its new content.
func (v *Volume) WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	if err := v.within("write", offset, int64(len(b))); err != nil {
		return 0, err
	}
	if err := v.write(ctx, offset, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// write writes b at offset, page by page. After an error it starts no further pages.
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

// Flush returns nil while the volume is usable. Flush has nothing to do, because a write returns
// only when its pages are on their servers. After the volume has ended, Flush returns the reason
// why the volume has ended.
func (v *Volume) Flush(context.Context) error { return v.c.Err() }

// Discard discards the n bytes from offset on. The discarded bytes then read as zeros. Discard
// frees each page that lies completely within the discarded bytes. Discard fails with
// [weft.ErrBadArgument] if the n bytes do not lie within the volume.
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

// zero fills part of one page with zeros. It does nothing if the page was not written.
func (v *Volume) zero(ctx context.Context, offset, n int64) error {
	page := uint64(offset / v.page)
	if n == 0 || len(v.c.among(page, page+1)) == 0 {
		return nil
	}
	return v.c.patch(ctx, page, int(offset%v.page), make([]byte, n), func() { v.ahead.forget(page) })
}

// Written reports which of the n bytes from offset on were written. Written divides the n bytes
// into parts and calls the function yield for each part, in the order of the offsets. The arguments
// of yield are the offset of the part, the length of the part, and true if the part was written. A
// part that was not written reads as zeros. If yield returns false, Written makes no more calls of
// yield. Written fails with [weft.ErrBadArgument] if the n bytes do not lie within the volume.
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

// firstLook is the number of pages that Written examines first. The number doubles with each step,
// because a caller may stop early and call Written again for the rest.
const firstLook = 64

// among returns the written pages with numbers from first to end-1, in order.
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

// parallel calls do with each number from 0 to n-1, at most Depth of them concurrently.
func (v *Volume) parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	return v.c.parallel(ctx, v.depth, n, do)
}

// parallel calls do with each number from 0 to n-1, at most depth of them concurrently. After the
// first error it starts no further calls and waits for the calls in progress.
func (c *Client) parallel(ctx context.Context, depth, n int, do func(ctx context.Context, i int) error) error {
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
	helpers := min(n, depth) - 1
	left.Store(int32(helpers))
	for range helpers {
		c.p.Runtime().Go(func() {
			work()
			left.Add(-1)
			c.p.Runtime().Wake()
		})
	}
	work()
	c.awaits(func() bool { return left.Load() == 0 }) // they use the caller's memory
	mu.Lock()
	defer mu.Unlock()
	return failed
}
