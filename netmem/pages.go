package netmem

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
)

// page is what a client knows of one of its pages. One call at a time works on it.
type page struct {
	busy    atomic.Bool
	version uint64 // that was acknowledged; 0: none yet
	issued  uint64 // the highest that was sent
	crc     uint32 // of version
	copies  []copyOf
}

// copyOf says that a server has a version of a page.
type copyOf struct {
	server  *server
	epoch   uint64
	version uint64
}

// on finds the copy on a server.
func (p *page) on(s *server) *copyOf {
	for i := range p.copies {
		if p.copies[i].server == s {
			return &p.copies[i]
		}
	}
	return nil
}

func (p *page) forget(s *server) {
	p.copies = slices.DeleteFunc(p.copies, func(k copyOf) bool { return k.server == s })
}

// has notes that a server has a version of the page.
func (p *page) has(s *server, epoch, version uint64) {
	p.forget(s)
	p.copies = append(p.copies, copyOf{s, epoch, version})
}

// good are the servers that are up and have the page as it was acknowledged, or newer. The port's lock is held.
func (c *Client) good(p *page) (l []*server) {
	for _, k := range p.copies {
		if k.server.up && k.epoch == k.server.epoch && k.version >= p.version {
			l = append(l, k.server)
		}
	}
	return l
}

// kept is how many of them are to keep it. The port's lock is held.
func (c *Client) kept(p *page) (n int) {
	for _, s := range c.good(p) {
		if !s.gone {
			n++
		}
	}
	return n
}

// take makes a page the caller's until give. make: one that is not there is made.
func (c *Client) take(ctx context.Context, number uint64, make bool) (*page, error) {
	for {
		c.port.mu.Lock()
		p := c.pages[number]
		switch {
		case c.closed.Load():
			c.port.mu.Unlock()
			return nil, weft.ErrClosed
		case p == nil && !make:
			c.port.mu.Unlock()
			return nil, ErrMissing
		case p == nil:
			p = &page{}
			c.pages[number] = p
		}
		mine := p.busy.CompareAndSwap(false, true)
		c.port.mu.Unlock()
		if mine {
			return p, nil
		}
		if err := c.p.WaitUntil(ctx, func() bool { return !p.busy.Load() || c.closed.Load() }); err != nil {
			return nil, err
		}
	}
}

func (c *Client) give(number uint64, p *page) {
	c.port.mu.Lock()
	p.busy.Store(false)
	if p.version == 0 && c.pages[number] == p {
		delete(c.pages, number)
	}
	c.port.mu.Unlock()
	c.p.Wake()
}

// WritePage writes a page, which has PageBytes. It returns when as many servers have it as a page has copies. It fails with ErrFull if
// no other server has room; then, and when ctx ends, the page reads as it was or as it should have become, and goes on to.
func (c *Client) WritePage(ctx context.Context, number uint64, data []byte) error {
	if len(data) != c.cfg.PageBytes {
		return fmt.Errorf("netmem: page %d of %d bytes; expected %d", number, len(data), c.cfg.PageBytes)
	}
	return c.patch(ctx, number, 0, data, func() {})
}

// patch writes part of a page, from an offset on. What lies around it stays as it was, or is zero in a page that was not there. begun is
// called when no other call works on the page any more.
func (c *Client) patch(ctx context.Context, number uint64, offset int, data []byte, begun func()) error {
	p, err := c.take(ctx, number, true)
	if err != nil {
		return err
	}
	defer c.give(number, p)
	begun()
	if len(data) < c.cfg.PageBytes {
		whole := make([]byte, c.cfg.PageBytes)
		if p.version > 0 {
			err = c.fetch(ctx, number, p, c.into(whole))
		}
		copy(whole[offset:], data)
		data = whole
	}
	if err == nil {
		err = c.write(ctx, number, p, data)
	}
	if err != nil {
		return fmt.Errorf("netmem: write page %d: %w", number, err)
	}
	c.port.mu.Lock()
	c.stats.PageOuts++
	c.port.mu.Unlock()
	return nil
}

// write gives a page its next version.
func (c *Client) write(ctx context.Context, number uint64, p *page, data []byte) error {
	c.port.mu.Lock()
	c.version++
	p.issued = c.version
	r := record{op: opPageOut, page: number, version: p.issued, crc: crc32.Checksum(data, castagnoli), size: uint32(len(data))}
	c.port.mu.Unlock()
	if err := c.spread(ctx, p, r, data); err != nil {
		return err
	}
	c.port.mu.Lock()
	p.version, p.crc = r.version, r.crc
	c.port.mu.Unlock()
	return nil
}

// spread sends a page to as many servers as it has copies, each by a unicast (HSN-28), those that have it first.
func (c *Client) spread(ctx context.Context, p *page, r record, data []byte) error {
	tried, full := map[*server]bool{}, false
	for {
		c.port.mu.Lock()
		var have []*server
		for _, k := range p.copies {
			if k.version == r.version && k.epoch == k.server.epoch && k.server.up && !k.server.gone {
				have = append(have, k.server)
			}
		}
		next := c.candidates(p, r.page, tried, c.cfg.Copies-len(have))
		live := len(c.live())
		c.port.mu.Unlock()
		switch {
		case len(have) >= c.cfg.Copies:
			return nil
		case len(next) > 0:
			full = c.pageOut(ctx, p, r, data, next, tried) || full
			if err := ctx.Err(); err != nil {
				return err
			}
		case full && live >= c.cfg.Copies:
			return ErrFull
		default: // too few are up: one may come back
			if err := c.p.Sleep(ctx, attendEvery); err != nil {
				return errors.Join(ErrFew, err)
			}
			clear(tried)
			full = false
		}
	}
}

// candidates are up to n live servers for a page that were not tried yet: those that have an older version of it, then by rank. The
// port's lock is held.
func (c *Client) candidates(p *page, number uint64, tried map[*server]bool, n int) (l []*server) {
	ranked := c.ranked(number)
	slices.SortStableFunc(ranked, func(a, b *server) int {
		x, y := p.on(a) != nil, p.on(b) != nil
		switch {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	for _, s := range ranked {
		if len(l) < n && !tried[s] {
			l = append(l, s)
		}
	}
	return l
}

// pageOut sends a page to some servers at once. It reports whether one of them was full.
func (c *Client) pageOut(ctx context.Context, p *page, r record, data []byte, to []*server, tried map[*server]bool) (full bool) {
	calls := make([]*call, len(to))
	for i, s := range to {
		tried[s] = true
		if i == len(to)-1 {
			calls[i] = c.ask(ctx, s, r, data)
			continue
		}
		c.port.mu.Lock()
		calls[i] = c.begin(s, r, data)
		c.port.mu.Unlock()
	}
	for i, k := range calls {
		if !k.done.Load() && k.failed == nil { // its answer has not come with the last one's
			again := c.ask(ctx, to[i], r, data)
			c.end(k)
			k = again
		}
		c.suspect(k)
		if k.answered() == nil {
			c.port.mu.Lock()
			switch k.answer.status {
			case statusOK:
				if k.answer.version == r.version {
					p.has(to[i], k.answer.epoch, r.version)
				}
			case statusFull, statusQuota:
				full = true
			case statusBad:
				c.stats.Damaged++
			}
			c.port.mu.Unlock()
		}
		c.end(k)
	}
	return full
}

// ReadPage reads a page into buf, which has PageBytes. ErrMissing: it was never written, or was discarded. ErrLost: no server has it
// any more.
func (c *Client) ReadPage(ctx context.Context, number uint64, buf []byte) error {
	if len(buf) != c.cfg.PageBytes {
		return fmt.Errorf("netmem: page %d into %d bytes; expected %d", number, len(buf), c.cfg.PageBytes)
	}
	return c.read(ctx, number, c.into(buf))
}

// ViewPage calls view with a page as it was received, which is view's until it returns: nothing is copied (HSN-16). Otherwise it is
// ReadPage.
func (c *Client) ViewPage(ctx context.Context, number uint64, view func(page []byte)) error {
	return c.read(ctx, number, view)
}

// into copies a page to where a caller wants it (HSN-23).
func (c *Client) into(buf []byte) func(page []byte) {
	return func(page []byte) { c.handed.Add(uint64(copy(buf, page))) }
}

// read has use look at a page.
func (c *Client) read(ctx context.Context, number uint64, use func(page []byte)) error {
	p, err := c.take(ctx, number, false)
	if err != nil {
		return fmt.Errorf("netmem: read page %d: %w", number, err)
	}
	defer c.give(number, p)
	if p.issued == p.version {
		err = c.fetch(ctx, number, p, use)
	} else {
		// A write has failed, and another server may have what it wrote. What has been read once is written as a version of its own.
		buf := make([]byte, c.cfg.PageBytes)
		if err = c.fetch(ctx, number, p, c.into(buf)); err == nil && p.issued > p.version {
			err = c.write(ctx, number, p, buf)
		}
		if err == nil {
			use(buf)
		}
	}
	if err != nil {
		return fmt.Errorf("netmem: read page %d: %w", number, err)
	}
	c.port.mu.Lock()
	c.stats.PageIns++
	c.port.mu.Unlock()
	return nil
}

// fetch reads a page from one of the servers that have it.
func (c *Client) fetch(ctx context.Context, number uint64, p *page, use func(page []byte)) error {
	for {
		c.port.mu.Lock()
		from := c.good(p)
		c.port.mu.Unlock()
		if len(from) == 0 {
			if !c.mayReturn(p) {
				return ErrLost
			}
			if err := c.p.Sleep(ctx, attendEvery); err != nil {
				return err
			}
			continue
		}
		k := c.pageIn(ctx, number, p, from)
		got := k.answered() == nil && k.answer.status == statusOK && c.accepts(p, k)
		if got {
			use(k.msg.Data)
		}
		c.suspect(k)
		if k.answered() == nil && !got {
			c.port.mu.Lock()
			if k.answer.status == statusMissing || k.answer.status == statusOK {
				p.forget(k.to)
			}
			c.port.mu.Unlock()
		}
		c.end(k)
		if got {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.Err(); err != nil {
			return err
		}
	}
}

// Err is why the client serves no more; nil while it does.
func (c *Client) Err() error {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	return c.port.err
}

// mayReturn reports whether a server that is not up has the page, if it has not restarted.
func (c *Client) mayReturn(p *page) bool {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	return slices.ContainsFunc(p.copies, func(k copyOf) bool {
		return !k.server.up && k.epoch == k.server.epoch && k.version >= p.version
	})
}

// pageIn asks one server for a page, and a second one when the first takes long. It returns the call that has its answer first.
func (c *Client) pageIn(ctx context.Context, number uint64, p *page, from []*server) *call {
	r := record{op: opPageIn, page: number, size: uint32(c.cfg.PageBytes)}
	if len(from) == 1 {
		return c.ask(ctx, from[0], r, nil)
	}
	c.port.mu.Lock()
	first := c.begin(from[0], r, nil)
	c.port.mu.Unlock()
	if c.waitFor(ctx, c.cfg.Hedge, first) == nil {
		return first
	}
	c.port.mu.Lock()
	c.stats.Hedged++
	second := c.begin(from[1], r, nil)
	c.port.mu.Unlock()
	if c.waitFor(ctx, c.cfg.Retry, first, second) == nil && first.done.Load() {
		c.end(second)
		return first
	}
	c.end(first)
	if second.done.Load() {
		return second
	}
	c.end(second)
	k := c.ask(ctx, from[0], r, nil)
	if errors.Is(k.failed, errSilent) {
		c.suspect(k)
	}
	return k
}

// accepts takes a page that has come, if it is whole and no older than what was acknowledged.
func (c *Client) accepts(p *page, k *call) bool {
	crc := crc32.Checksum(k.msg.Data, castagnoli)
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	switch a := &k.answer; {
	case len(k.msg.Data) != c.cfg.PageBytes || crc != a.crc:
		c.stats.Damaged++
		return false
	case a.version < p.version || a.version > p.issued || a.version == p.version && a.crc != p.crc:
		c.stats.Stale++
		return false
	default:
		p.version, p.crc = a.version, a.crc // newer if a write has failed
		p.has(k.to, a.epoch, a.version)
	}
	return true
}

// DiscardPage forgets a page. Servers that do not hear of it keep it until the client writes it again, or ends.
func (c *Client) DiscardPage(ctx context.Context, number uint64) error {
	return c.discard(ctx, number, func() {})
}

// discard is DiscardPage. begun is called when no other call works on the page any more.
func (c *Client) discard(ctx context.Context, number uint64, begun func()) error {
	p, err := c.take(ctx, number, false)
	if errors.Is(err, ErrMissing) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("netmem: discard page %d: %w", number, err)
	}
	begun()
	c.port.mu.Lock()
	copies := slices.Clone(p.copies)
	issued := p.issued
	c.port.mu.Unlock()
	for _, k := range copies {
		if k.server.up {
			a := c.ask(ctx, k.server, record{op: opDiscard, page: number, version: issued}, nil)
			c.suspect(a)
			c.end(a)
		}
	}
	c.port.mu.Lock()
	p.version, p.copies = 0, nil
	c.port.mu.Unlock()
	c.give(number, p)
	return ctx.Err()
}

// repairers is how many pages are given new copies at a time.
const repairers = 8

// repair gives pages that lack copies new ones, no faster than the configuration says.
func (c *Client) repair(ctx context.Context) {
	numbers := c.lacking()
	var next, left atomic.Int32
	work := func() {
		buf := make([]byte, c.cfg.PageBytes)
		per := time.Duration(float64(repairers*time.Second) * float64(c.cfg.PageBytes) / float64(c.cfg.RepairBytes))
		for i := int(next.Add(1)) - 1; i < len(numbers) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			begun := c.p.Now()
			if c.mend(ctx, numbers[i], buf) == nil {
				c.port.mu.Lock()
				c.stats.Repaired++
				c.port.mu.Unlock()
			}
			if rest := per - c.p.Now().Sub(begun); rest > 0 && c.p.Sleep(ctx, rest) != nil {
				return
			}
		}
	}
	left.Store(int32(min(repairers, len(numbers))))
	for range left.Load() {
		c.p.Go(func() {
			work()
			left.Add(-1)
			c.p.Wake()
		})
	}
	_ = c.p.WaitUntil(ctx, func() bool { return left.Load() == 0 })
}

// lacking are the pages that have fewer copies than they should, where another server could take one.
func (c *Client) lacking() (l []uint64) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	live := len(c.live())
	for number, p := range c.pages {
		if p.version > 0 && !p.busy.Load() && c.kept(p) < min(c.cfg.Copies, live) && len(c.good(p)) > 0 {
			l = append(l, number)
		}
	}
	slices.Sort(l)
	return l
}

// mend reads a page and writes it to the servers that lack it.
func (c *Client) mend(ctx context.Context, number uint64, buf []byte) error {
	within, cancel := c.p.WithTimeout(ctx, 4*c.cfg.Dead)
	defer cancel()
	p, err := c.take(within, number, false)
	if err != nil {
		return err
	}
	defer c.give(number, p)
	c.port.mu.Lock()
	here := len(c.good(p)) > 0
	c.port.mu.Unlock()
	if !here { // others may wait for the server that has it: a repair goes on to the next page
		return ErrLost
	}
	if err := c.fetch(within, number, p, c.into(buf)); err != nil {
		return err
	}
	c.port.mu.Lock()
	r := record{op: opPageOut, page: number, version: p.version, crc: p.crc, size: uint32(len(buf))}
	c.port.mu.Unlock()
	return c.spread(within, p, r, buf)
}
