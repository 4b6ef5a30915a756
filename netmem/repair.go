package netmem

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/internal/mutate"
)

// repairers is the number of concurrent repairs of pages.
const repairers = 8

// repair gives new copies to pages that lack them, and takes surplus copies back. It is limited to
// RepairBytes of pages per second. Failed attempts count too.
func (c *Client) repair(ctx context.Context) {
	numbers := c.unsettled()
	c.port.mu.Lock()
	all, mended := c.port.now() >= c.look.again, c.stats.Repaired
	c.look.begun(all)
	c.port.mu.Unlock()
	var next, left atomic.Int32
	work := func() {
		buf := make([]byte, c.cfg.PageBytes)
		per := time.Duration(float64(repairers*time.Second) * float64(c.cfg.PageBytes) / float64(c.cfg.RepairBytes))
		for i := int(next.Add(1)) - 1; i < len(numbers) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			begun := c.p.Runtime().Now()
			if errors.Is(c.settle(ctx, numbers[i], buf), ErrFull) {
				c.port.mu.Lock()
				c.look.refuse(numbers[i])
				c.port.mu.Unlock()
			}
			if rest := per - c.p.Runtime().Now().Sub(begun); rest > 0 && c.p.Runtime().Sleep(ctx, rest) != nil {
				return
			}
		}
	}
	left.Store(int32(min(repairers, len(numbers))))
	for range left.Load() {
		c.p.Runtime().Go(func() {
			work()
			left.Add(-1)
			c.p.Runtime().Wake()
		})
	}
	_ = c.p.Runtime().WaitUntil(ctx, func() bool { return left.Load() == 0 })
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	if all && len(numbers) > 0 {
		c.look.ended(c.port.now(), c.stats.Repaired > mended)
	}
}

// lacks reports whether a page has fewer copies than it should have, and another server could take
// a copy. The port's lock is held.
func (c *Client) lacks(p *page, live int) bool {
	switch {
	case p.version == 0 || c.cfg.defect == mutate.PagesUnrepaired:
		return false
	// With fewer servers the write could only wait, and calls for the page would wait with it.
	case p.pending != nil:
		return live >= c.code.servers()
	}
	// The count includes servers that are being removed.
	all := c.count(p, func(k *copyOf) bool { return c.isGood(p, k) })
	return c.kept(p) < min(c.code.servers(), live) && all >= c.code.Data
}

// surplus returns the copies of a page beyond the number that it should have. Surplus copies exist
// when a slow server comes back after it was replaced, or while a server is being removed. The
// port's lock is held.
func (c *Client) surplus(p *page) (l []copyOf) {
	if !c.spares(p) {
		return nil
	}
	n, shards := c.code.servers(), uint32(0)
	for _, k := range p.copies {
		twice := c.code.cuts() && shards&(1<<k.shard) != 0
		switch {
		case !k.server.up || !c.stands(&k):
		case k.server.gone || k.doubted || k.version < p.version:
			// A repair replaces it first, unless there are enough copies without it.
			if c.kept(p) >= c.code.servers() {
				l = append(l, k)
			}
		case n == 0 || twice:
			l = append(l, k)
		default:
			n--
			shards |= 1 << k.shard
		}
	}
	return l
}

// spares reports whether surplus copies of a page may be taken back. After a failed write they may
// not. The port's lock is held.
func (c *Client) spares(p *page) bool {
	return p.version > 0 && p.issued == p.version && c.cfg.defect != mutate.PagesSurplusKept
}

// settle gives a page the copies that it lacks, or takes surplus copies back.
func (c *Client) settle(ctx context.Context, number uint64, buf []byte) error {
	within, cancel := c.p.Runtime().WithTimeout(ctx, 4*c.cfg.Dead)
	defer cancel()
	p, err := c.take(within, number, false)
	if err != nil {
		return err
	}
	defer c.give(number, p)
	c.port.mu.Lock()
	lacks, surplus := c.lacks(p, len(c.live())), c.surplus(p)
	c.port.mu.Unlock()
	switch {
	case lacks:
		err = c.mend(within, number, p, buf)
	case len(surplus) > 0:
		c.takeBack(within, number, p, surplus)
	}
	return err
}

// mend reads a page and writes it to servers until it has enough copies.
func (c *Client) mend(ctx context.Context, number uint64, p *page, buf []byte) error {
	if err := c.fetch(ctx, number, p, c.into(buf)); err != nil {
		return err
	}
	f := c.form(buf)
	defer c.giveBack(f.mem)
	c.port.mu.Lock()
	r := record{op: opPageOut, page: number, version: p.version}
	anew := p.anew || p.issued != p.version || f.keptSum != p.keptSum
	c.port.mu.Unlock()
	err := errTwice
	if !anew {
		err = c.spread(ctx, p, r, f, map[*server]bool{}, false)
	}
	if errors.Is(err, errTwice) {
		err = c.write(ctx, number, p, buf)
	}
	if err == nil {
		c.port.mu.Lock()
		c.stats.Repaired++
		c.port.mu.Unlock()
	}
	return err
}

// takeBack makes servers drop surplus copies of a page. It first reads the copies that stay: a
// server may be dead without having been found silent, or its memory may be damaged. A request to
// drop may arrive late, so the next copy of the page gets a new version.
func (c *Client) takeBack(ctx context.Context, number uint64, p *page, from []copyOf) {
	c.port.mu.Lock()
	stay := c.staying(p, from)
	c.port.mu.Unlock()
	for _, t := range stay {
		if !c.gives(ctx, number, p, t) {
			return
		}
	}
	c.port.mu.Lock()
	from = c.surplus(p) // servers may have come or gone meanwhile
	if !slices.Equal(c.staying(p, from), stay) {
		from = nil
	}
	for _, k := range from {
		p.anew = true
		p.forget(k.server)
	}
	c.port.mu.Unlock()
	for _, k := range from {
		c.drop(ctx, k.server, number, k.version)
	}
}

// staying returns the good copies of a page other than those in without. It returns none if no copy
// in without could be read itself. The port's lock is held.
func (c *Client) staying(p *page, without []copyOf) (l []target) {
	if !slices.ContainsFunc(without, func(k copyOf) bool { return c.suits(p, &k) }) {
		return nil
	}
	for _, k := range p.copies {
		if !k.server.gone && c.isGood(p, &k) && !slices.Contains(without, k) {
			l = append(l, target{k.server, k.shard})
		}
	}
	return l
}

// gives reports whether a server sends its copy of a page when it is asked.
func (c *Client) gives(ctx context.Context, number uint64, p *page, t target) bool {
	if !c.code.cuts() {
		got, _ := c.fetchFrom(ctx, number, p, []*server{t.to}, func([]byte) {})
		return got
	}
	g := &gathered{c: c, p: p, mem: c.borrow()}
	defer c.giveBack(g.mem)
	defer g.end()
	g.calls, g.seen = []*call{c.ask(ctx, t.to, record{op: opPageIn, page: number}, nil)}, []bool{false}
	g.take([]target{t})
	return g.have == 1
}
