package netmem

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/weftnet/weft/internal/mutate"
)

// ReadPage reads a page into buf. The length of buf must be PageBytes. ReadPage fails with
// [ErrMissing] if the page was never written or was discarded. ReadPage fails with [ErrLost] if no
// server has the page any more. If all servers that may still have the page are down, ReadPage
// waits for these servers until ctx ends.
func (c *Client) ReadPage(ctx context.Context, number uint64, buf []byte) error {
	if len(buf) != c.cfg.PageBytes {
		return badArgument("netmem: page %d into %d bytes; expected %d", number, len(buf), c.cfg.PageBytes)
	}
	return c.read(ctx, number, c.into(buf))
}

// ViewPage reads a page and calls the function view with its content. ViewPage passes view the
// buffer that received the page, and so avoids the copy that ReadPage makes. If the page is
// compressed or cut into shards, ViewPage first decodes the page into another buffer, and passes
// view that buffer. The function view must not keep or change the slice, and must not call the
// client for the same page. ViewPage fails with the same errors as ReadPage.
func (c *Client) ViewPage(ctx context.Context, number uint64, view func(page []byte)) error {
	return c.read(ctx, number, view)
}

// into returns a function that copies a page into buf.
func (c *Client) into(buf []byte) func(page []byte) {
	return func(page []byte) { c.handed.Add(uint64(copy(buf, page))) }
}

// read reads a page and calls use with it.
func (c *Client) read(ctx context.Context, number uint64, use func(page []byte)) error {
	p, err := c.take(ctx, number, false)
	if err != nil {
		return fmt.Errorf("netmem: read page %d: %w", number, err)
	}
	defer c.give(number, p)
	if p.issued == p.version || p.pending != nil || c.code.cuts() || c.cfg.defect == mutate.PagesUndecided {
		p.stirred = false
		err = c.fetch(ctx, number, p, use)
	} else {
		// After a failed write some servers may have the new content. Once read, the found content
		// must stay, so it is written as a version of its own. If there is room to keep it until
		// then, a repair writes it: the servers may be full, or too few of them up.
		buf := make([]byte, c.cfg.PageBytes)
		if err = c.fetch(ctx, number, p, c.into(buf)); err == nil && !c.decide(p, buf) {
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

// fetch reads a page from one of the servers that have it. Servers that have restarted since they
// stored the page do not count. fetch fails with ErrLost if it has asked all other servers and none
// has the page.
func (c *Client) fetch(ctx context.Context, number uint64, p *page, use func(page []byte)) error {
	switch {
	case p.pending != nil:
		use(p.pending)
		return nil
	case c.code.cuts():
		return c.fetchShards(ctx, number, p, use)
	}
	var asked map[*server]int // by server: answers that were not the page
	for {
		c.port.mu.Lock()
		from, away := c.sources(p, asked)
		c.port.mu.Unlock()
		if c.cfg.defect == mutate.PagesTwoLooks && len(from) == 0 {
			_ = c.p.Runtime().Sleep(ctx, attendEvery)
			c.port.mu.Lock()
			_, away = c.sources(p, asked)
			c.port.mu.Unlock()
		}
		switch {
		case len(from) > 0:
			got, wrong := c.fetchFrom(ctx, number, p, from, use)
			if got {
				return nil
			}
			if wrong != nil {
				if asked == nil {
					asked = map[*server]int{}
				}
				asked[wrong]++
			}
			if err := errors.Join(ctx.Err(), c.Err()); err != nil {
				return err
			}
		case !away:
			return ErrLost
		default:
			if err := c.rest(ctx); err != nil {
				return err
			}
		}
	}
}

// fetchFrom reads a page from the first server in from, or from the second. It reports whether it
// got the page. If a server answered with something else, wrong is that server.
func (c *Client) fetchFrom(
	ctx context.Context, number uint64, p *page, from []*server, use func(page []byte),
) (got bool, wrong *server) {
	k := c.pageIn(ctx, number, p, from)
	defer c.end(k)
	return c.judge(p, k, use)
}

// judge calls the function use with the page, if the answer to a call contains the page. Its
// results are like those of fetchFrom.
func (c *Client) judge(p *page, k *call, use func(page []byte)) (got bool, wrong *server) {
	if k.answered() == nil && k.answer.status == statusOK {
		page, mem := c.page(k.msg.Data)
		defer c.giveBack(mem)
		if c.accepts(p, k, page) {
			use(page)
			return true, nil
		}
	}
	c.suspect(k)
	if k.answered() != nil || k.answer.status == statusEpoch {
		return false, nil
	}
	c.port.mu.Lock()
	p.doubt(k.to, c.cfg.defect)
	c.port.mu.Unlock()
	return false, k.to
}

// Err returns the reason why the client has ended. After Close, the reason is [weft.ErrClosed].
// While the client runs, Err returns nil.
func (c *Client) Err() error {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	return c.port.err
}

// pageIn requests a page from one server, and from a second server if the first is slow. It returns
// the call that was answered first.
func (c *Client) pageIn(ctx context.Context, number uint64, p *page, from []*server) *call {
	r := record{op: opPageIn, page: number}
	if len(from) == 1 {
		return c.ask(ctx, from[0], r, nil)
	}
	c.port.mu.Lock()
	first := c.begin(from[0], r, nil)
	hedge := from[0].patience(c.cfg.Hedge, max(c.cfg.Hedge, c.cfg.Dead/8))
	c.port.mu.Unlock()
	if c.waitFor(ctx, hedge, first) == nil {
		return first
	}
	c.port.mu.Lock()
	c.stats.Hedged++
	second := c.begin(from[1], r, nil)
	retry := from[1].patience(c.cfg.Retry, max(c.cfg.Retry, c.cfg.Dead/4))
	c.port.mu.Unlock()
	if c.waitFor(ctx, retry, first, second) == nil && first.done.Load() {
		c.end(second)
		return first
	}
	c.end(first)
	if second.done.Load() {
		return second
	}
	c.end(second)
	return c.ask(ctx, from[0], r, nil)
}

// accepts reports whether a page is undamaged and not older than the acknowledged version.
func (c *Client) accepts(p *page, k *call, page []byte) bool {
	crc := crc32.Checksum(page, castagnoli)
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	switch a := &k.answer; {
	case page == nil || crc != a.crc:
		c.stats.Damaged++
		return false
	case c.cfg.defect == mutate.PagesOldRead:
	case a.version < p.version || a.version > p.issued || a.version == p.version && a.crc != p.crc:
		c.stats.Stale++
		return false
	default:
		p.has(k.to, a.epoch, a.version, 0)
	}
	return true
}
