package netmem

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/mutate"
)

// take reserves a page for the caller until give. If the page does not exist and make is true, take
// creates it.
func (c *Client) take(ctx context.Context, number uint64, make bool) (*page, error) {
	for {
		c.port.mu.Lock()
		p := c.pages[number]
		switch {
		case c.closed.Load():
			c.port.mu.Unlock()
			return nil, weft.ErrClosed
		case p == nil && c.port.err != nil:
			err := c.port.err
			c.port.mu.Unlock()
			return nil, err
		case p == nil && !make:
			c.port.mu.Unlock()
			return nil, ErrMissing
		case p == nil:
			p = &page{}
			c.pages[number] = p
		}
		mine := p.busy.CompareAndSwap(false, true)
		if mine {
			p.stirred = true
		}
		c.port.mu.Unlock()
		if mine {
			return p, nil
		}
		if err := c.p.Runtime().WaitUntil(ctx, func() bool { return !p.busy.Load() || c.closed.Load() }); err != nil {
			return nil, err
		}
	}
}

// give ends take, and wakes the calls that wait for the page.
func (c *Client) give(number uint64, p *page) {
	c.port.mu.Lock()
	c.letOthers(number, p)
	c.port.mu.Unlock()
	c.p.Runtime().Wake()
}

// letOthers is like give, but does not wake the waiting calls. The port's lock is held.
func (c *Client) letOthers(number uint64, p *page) {
	p.busy.Store(false)
	if p.version == 0 && c.pages[number] == p {
		delete(c.pages, number)
		c.oweAll(number, p)
	}
	if p.stirred {
		c.look.note(number)
	}
}

// WritePage writes a page. The length of data must be PageBytes. WritePage returns nil when each
// copy or shard of the page is on a different server. WritePage fails with [ErrFull] if the servers
// have no room for the page. If too few servers are up, WritePage waits for more servers until ctx
// ends. If ctx ends first, WritePage fails with an error that wraps both [ErrFew] and the error of
// ctx. After an error, the page has either its old or its new content. The first read after the
// error returns the old or the new content, and all later reads return the same content as the
// first read.
func (c *Client) WritePage(ctx context.Context, number uint64, data []byte) error {
	if len(data) != c.cfg.PageBytes {
		return badArgument("netmem: page %d of %d bytes; expected %d", number, len(data), c.cfg.PageBytes)
	}
	return c.patch(ctx, number, 0, data, func() {})
}

// patch writes part of a page at an offset. The rest of the page keeps its content, or is zero in a
// new page. begun is called when no other call works on the page any more.
func (c *Client) patch(ctx context.Context, number uint64, offset int, data []byte, begun func()) error {
	p, err := c.take(ctx, number, true)
	if err != nil {
		return fmt.Errorf("netmem: write page %d: %w", number, err)
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

// maxPending is the largest number of pages with pending content. When it is reached, further
// writes fail. Writes that are in flight at that moment may exceed it.
const maxPending = 1024

// write gives a page its next version.
func (c *Client) write(ctx context.Context, number uint64, p *page, data []byte) error {
	c.port.mu.Lock()
	crowded := c.code.cuts() && p.version > 0 && p.pending == nil && c.pendings >= maxPending
	c.port.mu.Unlock()
	if crowded {
		return fmt.Errorf("%w: %d pages wait for some already", ErrFull, maxPending)
	}
	f := c.form(data)
	defer c.giveBack(f.mem)
	r := record{op: opPageOut, page: number}
	err := errTwice
	for errors.Is(err, errTwice) {
		c.port.mu.Lock()
		c.version++
		p.issued = c.version
		r.version = p.issued
		c.port.mu.Unlock()
		err = c.spread(ctx, p, r, f, map[*server]bool{}, false)
	}
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	if err != nil {
		c.keep(p, data)
		return err
	}
	c.moveOn(p, r.version, f)
	return nil
}

// moveOn makes a version of a page the acknowledged one. The port's lock is held.
func (c *Client) moveOn(p *page, version uint64, f *form) {
	p.version, p.crc, p.keptSum, p.anew = version, f.crc, f.keptSum, false
	c.keep(p, nil)
	c.stats.PlainBytes += uint64(f.size)
	c.stats.KeptBytes += uint64(f.kept)
}

// keep stores the content of a failed write of shards as pending, so that a repair completes the
// write. A failed write of copies leaves the pending content as it is. nil means that the page was
// written. The port's lock is held.
func (c *Client) keep(p *page, data []byte) {
	switch {
	case data == nil && p.pending != nil:
		c.pendings--
		p.pending = nil
	case data != nil && c.code.cuts() && p.version > 0 && c.cfg.defect != mutate.PagesPendingLost:
		if p.pending == nil {
			c.pendings++
		}
		p.pending = slices.Clone(data)
	}
}

// decide stores the content that a read found after a failed write as pending, so that a repair
// writes it. It reports whether there is room for it.
func (c *Client) decide(p *page, found []byte) bool {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	if c.pendings >= maxPending {
		return false
	}
	c.pendings++
	p.pending = found
	return true
}

// errTwice is the error of spread when two servers have the same shard of a version. Neither server
// can take another shard of this version.
var errTwice = errors.New("netmem: two servers have the same shard")

// spread sends a page to as many servers as it has copies, each by a unicast. Servers that already
// have the page come first. tried and full describe the servers that were tried before.
func (c *Client) spread(ctx context.Context, p *page, r record, f *form, tried map[*server]bool, full bool) error {
	for {
		c.port.mu.Lock()
		have, missing := c.placed(p, r.version)
		if c.cfg.defect == mutate.PagesAckedEarly && len(have) > 0 {
			c.port.mu.Unlock()
			return nil
		}
		next := c.candidates(p, r.page, tried, have, missing)
		live, ended := len(c.live()), c.port.err
		c.port.mu.Unlock()
		switch {
		case r.shelved && p.issued > r.version:
			return errOlder
		case len(missing) == 0:
			return nil
		case ended != nil:
			return ended
		case ctx.Err() != nil && live >= c.code.servers():
			return ctx.Err()
		case len(next) > 0:
			full = c.pageOut(ctx, p, r, f, next, tried) || full
			if err := ctx.Err(); err != nil {
				return err
			}
		case len(have)+len(missing) > c.code.servers():
			return errTwice
		case full && live >= c.code.servers():
			return c.fullAt(tried)
		default: // too few servers are up or have answered: one may come back
			switch err := c.p.Runtime().Sleep(ctx, attendEvery); {
			case err != nil && live < c.code.servers():
				return fmt.Errorf("%w: %w", ErrFew, err)
			case err != nil:
				return err
			}
			clear(tried)
			full = false
		}
	}
}

// placed returns the servers that have a version of a page, and the shards that none of them has.
// The port's lock is held.
func (c *Client) placed(p *page, version uint64) (have []*server, missing []uint8) {
	shards := uint32(0)
	for _, k := range p.copies {
		if k.version == version && c.stands(&k) && k.server.up && !k.server.gone && !k.doubted {
			have = append(have, k.server)
			shards |= 1 << k.shard
		}
	}
	if !c.code.cuts() {
		return have, make([]uint8, max(c.code.servers()-len(have), 0)) // all copies are the same
	}
	for i := range uint8(c.code.servers()) {
		if shards&(1<<i) == 0 {
			missing = append(missing, i)
		}
	}
	return have, missing
}

// target is a server and the shard that it is sent.
type target struct {
	to    *server
	shard uint8
}

// candidates returns live servers for the missing shards, without the servers in tried. Servers
// that have an older version of the page come first. The other servers follow by rank. The port's
// lock is held.
func (c *Client) candidates(
	p *page, number uint64, tried map[*server]bool, have []*server, missing []uint8,
) (l []target) {
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
		if len(l) < len(missing) && !tried[s] && !slices.Contains(have, s) {
			l = append(l, target{s, missing[len(l)]})
		}
	}
	return l
}

// pageOut sends a page to some servers concurrently. It reports whether one of them was full.
func (c *Client) pageOut(
	ctx context.Context, p *page, r record, f *form, to []target, tried map[*server]bool,
) (full bool) {
	calls := make([]*call, len(to))
	for i, t := range to {
		tried[t.to] = true
		var data []byte
		r.shape, data = f.shardOf(int(t.shard))
		if i == len(to)-1 {
			calls[i] = c.ask(ctx, t.to, r, data)
			continue
		}
		c.port.mu.Lock()
		calls[i] = c.begin(t.to, r, data)
		c.port.mu.Unlock()
	}
	for i, k := range calls {
		if k.failed == nil { // its answer may arrive after the last one's
			c.finish(ctx, k)
		}
		c.suspect(k)
		c.port.mu.Lock()
		full = c.tookOut(p, k, r.version, to[i]) || full
		c.port.mu.Unlock()
		c.end(k)
	}
	return full
}

// tookOut records a server's answer to a version of a page, and reports whether the server is full.
// The port's lock is held.
func (c *Client) tookOut(p *page, k *call, version uint64, t target) (full bool) {
	if k.answered() != nil {
		return false
	}
	switch k.answer.status {
	case statusOK:
		switch same := k.answer.crc == k.record.crc; {
		case k.record.shelved && (k.answer.version > version || k.answer.version == version && !same):
			p.issued = max(p.issued, k.answer.version+1) // another client wrote this version
		case k.answer.version == version:
			p.has(k.to, k.answer.epoch, version, c.shardThere(k, t))
		}
	case statusFull, statusQuota, statusUnshelved:
		full = true
		k.to.refusal = k.answer.status
	case statusBad:
		c.stats.Damaged++
	}
	return full
}

// fullAt returns ErrFull, and names a server if the reason there is not its room.
func (c *Client) fullAt(tried map[*server]bool) error {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	for _, s := range c.servers {
		if tried[s] && (s.refusal == statusQuota || s.refusal == statusUnshelved) {
			return fmt.Errorf("%w: server %v: %v", ErrFull, s.Name, s.refusal)
		}
	}
	return ErrFull
}

// shardThere returns the shard that a server says it has. It differs from the one sent if the
// server had another shard of this version already.
func (c *Client) shardThere(k *call, t target) uint8 {
	if c.cfg.defect == mutate.PagesShardBelieved {
		return t.shard
	}
	return k.answer.shard
}

// DiscardPage discards a page. The servers that hold the page drop it. If the page was never
// written, DiscardPage returns nil. If a server that holds the page is down, the client tells this
// server to drop the page when the server is up again.
func (c *Client) DiscardPage(ctx context.Context, number uint64) error {
	return c.discard(ctx, number, func() {})
}

// discard is like DiscardPage, but calls begun when no other call works on the page any more.
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
	issued := p.issued
	var from []*server
	for _, k := range p.copies {
		if k.server.up {
			from = append(from, k.server)
		}
	}
	// Servers that are down owe the page.
	p.copies = slices.DeleteFunc(p.copies, func(k copyOf) bool { return k.server.up })
	c.port.mu.Unlock()
	for _, s := range from {
		c.drop(ctx, s, number, issued)
	}
	c.port.mu.Lock()
	p.version = 0
	c.keep(p, nil)
	c.look.free()
	c.port.mu.Unlock()
	c.give(number, p)
	return ctx.Err()
}
