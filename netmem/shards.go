package netmem

import (
	"context"
	"errors"
	"hash/crc32"
	"math/bits"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/mutate"
)

// fetchShards reads a page from enough of its servers. It fails with ErrLost if all servers that
// have not restarted since were asked and too few of them have their shards.
func (c *Client) fetchShards(ctx context.Context, number uint64, p *page, use func(page []byte)) error {
	asked := map[*server]int{} // by server: answers that were not the shard
	for {
		c.port.mu.Lock()
		from, away := c.shardSources(p, asked)
		c.port.mu.Unlock()
		switch {
		case len(from) >= c.code.Data:
			got, wrong := c.gather(ctx, number, p, from, use)
			if got {
				return nil
			}
			for _, s := range wrong {
				asked[s]++
			}
			if err := errors.Join(ctx.Err(), c.Err()); err != nil {
				return err
			}
		case len(from)+away < c.code.Data:
			return ErrLost
		default:
			if err := c.rest(ctx); err != nil {
				return err
			}
		}
	}
}

// shardSources returns the servers to read a page's shards from, one for each shard. Data shards
// come first, because they need no computing. Doubted ones come last, if they were not asked too
// often. away counts further shards on servers that are down. It looks at all servers at once, as
// sources does. The port's lock is held.
func (c *Client) shardSources(p *page, asked map[*server]int) (l []target, away int) {
	seen, gone := uint32(0), uint32(0)
	good := 0
	for _, doubted := range []bool{false, true} {
		for i := range p.copies {
			k := &p.copies[i]
			switch {
			case !c.stands(k) || !c.suits(p, k) || k.doubted != doubted || asked[k.server] >= maxDoubts:
			case !k.server.up:
				gone |= 1 << k.shard
			case seen&(1<<k.shard) == 0:
				seen |= 1 << k.shard
				l = append(l, target{k.server, k.shard})
			}
		}
		if !doubted {
			good = len(l)
		}
	}
	slices.SortFunc(l[:good], func(a, b target) int { return int(a.shard) - int(b.shard) })
	return l, bits.OnesCount32(gone &^ seen)
}

// gathered holds the shards of a page that have arrived.
type gathered struct {
	c      *Client
	p      *page
	mem    *scratch
	shards [][]byte // empty: not here
	have   int
	kept   int // length of the page as servers keep it; 0: not known yet
	calls  []*call
	seen   []bool    // by call: its answer was looked at
	wrong  []*server // those that answered with something else
}

// gather reads a page from servers that each have another shard of it. It asks as many as needed,
// and one more for each that is late or answers with something else. It reports whether it got the
// page. wrong are the servers that answered with something else.
func (c *Client) gather(
	ctx context.Context, number uint64, p *page, from []target, use func(page []byte),
) (got bool, wrong []*server) {
	g := &gathered{c: c, p: p, mem: c.borrow()}
	defer c.giveBack(g.mem)
	defer g.end()
	r := record{op: opPageIn, page: number}
	g.ask(from[:c.code.Data], r)
	wait := g.patience(c.cfg.Hedge, max(c.cfg.Hedge, c.cfg.Dead/8))
	for {
		err := g.await(ctx, wait)
		late := errors.Is(err, context.DeadlineExceeded)
		g.take(from)
		rest := from[len(g.calls):]
		lacks := c.code.Data - g.have - g.waiting()
		switch {
		case g.have >= c.code.Data:
			page, mem := c.whole(g)
			defer c.giveBack(mem)
			if page == nil {
				c.note(&c.stats.Damaged)
				return false, append(g.wrong, g.servers()...)
			}
			use(page)
			c.handed.Add(uint64(g.kept))
			return true, nil
		case ctx.Err() != nil || err != nil && !late || lacks > len(rest):
			return false, g.wrong
		case lacks > 0:
			g.ask(rest[:lacks], r)
		case late && len(rest) > 0:
			c.note(&c.stats.Hedged)
			g.ask(rest[:1], r)
		case late:
			g.again()
			wait = min(2*max(wait, c.cfg.Retry), max(c.cfg.Retry, c.cfg.Dead/4))
		}
	}
}

// note increments a counter.
func (c *Client) note(n *uint64) {
	c.port.mu.Lock()
	*n++
	c.port.mu.Unlock()
}

// ask requests shards from further servers.
func (g *gathered) ask(to []target, r record) {
	g.c.port.mu.Lock()
	defer g.c.port.mu.Unlock()
	for _, t := range to {
		g.calls = append(g.calls, g.c.begin(t.to, r, nil))
		g.seen = append(g.seen, false)
	}
}

// patience returns the answer timeout of the slowest server that was asked.
func (g *gathered) patience(least, most time.Duration) (d time.Duration) {
	g.c.port.mu.Lock()
	defer g.c.port.mu.Unlock()
	for _, k := range g.calls {
		d = max(d, k.to.patience(least, most))
	}
	return d
}

// await waits for an answer that was not looked at.
func (g *gathered) await(ctx context.Context, d time.Duration) error {
	var calls []*call
	for i, k := range g.calls {
		if !g.seen[i] {
			calls = append(calls, k)
		}
	}
	return g.c.waitFor(ctx, d, calls...)
}

// waiting returns the number of servers that have not answered.
func (g *gathered) waiting() (n int) {
	for _, seen := range g.seen {
		if !seen {
			n++
		}
	}
	return n
}

// take looks at the answers that have arrived.
func (g *gathered) take(from []target) {
	for i, k := range g.calls {
		if g.seen[i] || k.failed == nil && !k.done.Load() {
			continue
		}
		g.seen[i] = true
		switch {
		case k.answered() == nil && k.answer.status == statusOK && g.accepts(k, from[i].shard):
			g.have++
		case k.answered() != nil || k.answer.status == statusEpoch:
			g.c.suspect(k)
		default:
			g.c.port.mu.Lock()
			g.p.doubt(k.to, g.c.cfg.defect)
			g.c.port.mu.Unlock()
			g.wrong = append(g.wrong, k.to)
		}
	}
}

// accepts stores a shard if it is undamaged and of the acknowledged version.
func (g *gathered) accepts(k *call, shard uint8) bool {
	c, a, n := g.c, &k.answer, int(k.answer.kept)
	whole := n > 0 && n <= c.cfg.PageBytes && len(k.msg.Data) == c.code.shardBytes(n) &&
		crc32.Checksum(k.msg.Data, castagnoli) == a.sum
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	switch {
	case !whole || g.kept > 0 && n != g.kept:
		c.stats.Damaged++
		return false
	case c.cfg.defect == mutate.PagesShardsMixed && a.shard == shard:
	case a.version != g.p.version || a.crc != g.p.crc || a.shard != shard || a.code != c.code:
		c.stats.Stale++
		return false
	}
	if g.kept == 0 {
		g.kept = n
		g.shards = c.shards(g.mem.b, g.mem.b, len(k.msg.Data))
		for i := range g.shards {
			g.shards[i] = g.shards[i][:0]
		}
	}
	g.shards[shard] = append(g.shards[shard], k.msg.Data...) // within its capacity
	c.port.driver.Free(&k.msg)
	return true
}

// again retransmits the requests without an answer. A request to a server that counts as dead
// fails.
func (g *gathered) again() {
	c := g.c
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	for i, k := range g.calls {
		switch {
		case g.seen[i] || k.done.Load():
		case c.silent(k):
			k.failed = errSilent
		case !k.to.up:
			k.failed = errDown
		default:
			c.again(k)
		}
	}
}

// servers returns the servers whose shards have arrived.
func (g *gathered) servers() (l []*server) {
	for _, k := range g.calls {
		if k.answered() == nil && k.done.Load() && k.answer.status == statusOK {
			l = append(l, k.to)
		}
	}
	return l
}

// end forgets the requests.
func (g *gathered) end() {
	for _, k := range g.calls {
		g.c.end(k)
	}
}
