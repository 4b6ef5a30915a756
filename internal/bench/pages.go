package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
	"github.com/weftnet/weft/netmem"
)

// Network memory is measured between this program and another one with a page server:
//
//	this program                             the other one
//	netmem.Client ══ pages out and in ══►    weft-pages/0: a page server
//	Call          ── 4 KiB as the answer ──► weft-pages/1, on the same NIC
//
// Calls take turns with pages, so both see the same machine. Either both programs are on this
// host, or each is on a host of a testbed. In the second case this program starts both, and
// passes on the result of the first.

// The kinds of measurement.
const (
	KindPages   = "pages"
	KindPageIn  = "pagein"
	KindPageOut = "pageout"
)

// PagesOptions say what is measured.
type PagesOptions struct {
	Kind  string
	Link  string // LinkUDP or LinkShm
	Page  int    // length of a page; KindPages measures both lengths
	Depth int    // pages in flight
	Time  time.Duration
	Self  string // path of the weft binary
	Veth  bool   // each side is on a host of a testbed
	Sealing

	Listen string // address of this side's NIC; empty: any
	Server string // address of a running page server; empty: one is started
}

// PagesRow is the result of KindPageIn and KindPageOut.
type PagesRow struct {
	Bench  string  `json:"bench"`
	Sealed bool    `json:"sealed"` // the links between NICs
	Link   string  `json:"link"`
	Page   int     `json:"page_bytes"`
	Depth  int     `json:"depth"`
	P50    int64   `json:"p50_ns"`
	P99    int64   `json:"p99_ns"`
	Rate   float64 `json:"pages_per_s"`
	Call   int64   `json:"call_p50_ns"` // of a call with an answer of the same length, one by one
	Ratio  float64 `json:"ratio"`       // of the page's p50 to the call's
}

// CopiesRow is one scenario of KindPages (HSN-40).
type CopiesRow struct {
	Bench    string `json:"bench"`
	Sealed   bool   `json:"sealed"` // the links between NICs
	Link     string `json:"link"`
	Scenario string `json:"scenario"`
	// of a whole page, on both sides, without the links' copies
	Copies float64 `json:"copies_per_page"`
	P50    int64   `json:"p50_ns"`
}

var (
	pageServer = weft.Name{App: "weft-pages", Index: 0}
	pageCalls  = weft.Name{App: "weft-pages", Index: 1}
)

const (
	tagPageCall   weft.Tag = 300
	pageServed             = 64 << 20 // bytes that the server lends
	pagesUsed              = 2048     // pages that a measurement uses in turn
	pageRounds             = 5        // how often pages and calls take turns
	pageCallBytes          = 8192     // length of the longest answer
)

// pagesPlan is one of the two programs, as a child. Without Server it runs the page server; with
// Server it runs the client.
type pagesPlan struct{ PagesOptions }

func (p *pagesPlan) run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx = EndWithInput(ctx, in)
	if p.Server == "" {
		return servePages(ctx, p.PagesOptions, out)
	}
	r, err := RunPages(ctx, p.PagesOptions)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// servePages runs the page server. It prints its address, and ends with ctx.
func servePages(ctx context.Context, o PagesOptions, out io.Writer) error {
	link, err := weft.ParseLink(o.listen())
	if err != nil {
		return err
	}
	p, err := weft.Open(ctx, o.over(weft.Config{Name: pageServer, Link: link}))
	if err != nil {
		return err
	}
	s, err := netmem.Serve(p, netmem.ServerConfig{Bytes: pageServed})
	if err != nil {
		return errors.Join(err, p.Close())
	}
	calls, err := p.NIC().Attach(ctx, pageCalls)
	if err == nil {
		_, err = fmt.Fprintln(out, p.NIC().Addr())
	}
	if err == nil {
		err = answerCalls(ctx, calls)
	}
	if ctx.Err() != nil {
		err = nil
	}
	s.Close()
	return errors.Join(err, p.Close())
}

// listen returns the address of this side's NIC.
func (o *PagesOptions) listen() string {
	switch {
	case o.Listen != "":
		return o.Listen
	case o.Link == LinkShm:
		return "shm:"
	}
	return "127.0.0.1:0"
}

// answerCalls answers each call with the number of bytes in its tag.
func answerCalls(ctx context.Context, p *weft.Process) error {
	buf := make([]byte, pageCallBytes)
	for {
		m, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, nil)
		if err != nil {
			return err
		}
		if n := int(m.Tag - tagPageCall); m.IsCall() && n <= len(buf) {
			if err := p.Reply(ctx, m, buf[:n]); err != nil {
				return err
			}
		}
	}
}

// pager is this program's side.
type pager struct {
	o *PagesOptions
	p *weft.Process
	u undo
}

// with sets up both programs, calls measure, and takes them down again.
func (o *PagesOptions) with(ctx context.Context, measure func(*pager) error) (err error) {
	g := &pager{o: o}
	defer g.u.end(ctx, &err)
	addr := o.Server
	if addr == "" {
		if addr, err = g.u.startServer(ctx, newChild(o.Self,
			childPlan{Pages: &pagesPlan{*o}}.args(o.Kind)...)); err != nil {
			return err
		}
	}
	g.p, _, err = g.u.open(ctx, place{deployment: DeployedEmbedded, name: ClientName, listen: o.listen(),
		nodes: []weft.Node{{Addr: addr}}, sealing: o.Sealing})
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := g.p.WaitName(wait, pageCalls); err != nil {
		return err
	}
	return measure(g)
}

// RunPages measures page-ins or page-outs.
func RunPages(ctx context.Context, o PagesOptions) (r PagesRow, err error) {
	if o.Veth {
		return o.onHosts(ctx)
	}
	r = PagesRow{Bench: o.Kind, Sealed: o.Sealed, Link: o.Link, Page: o.Page, Depth: o.Depth}
	return r, o.with(ctx, func(g *pager) error {
		c, err := g.client(ctx, o.Page)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := fillPages(ctx, c, o.Page); err != nil {
			return err
		}
		do := pageIn(c, o.Page)
		if o.Kind == KindPageOut {
			do = pageOut(c, o.Page)
		}
		pages, calls := newHistogram(), newHistogram()
		run := func(d time.Duration, into *times) (time.Duration, error) {
			return g.times(ctx, o.Depth, d, into, do)
		}
		if o.Depth > 1 {
			many := c.ReadPages
			if o.Kind == KindPageOut {
				many = c.WritePages
			}
			run = func(d time.Duration, into *times) (time.Duration, error) {
				return manyPages(ctx, many, &o, d, into)
			}
		}
		if _, err := run(warmUp(o.Time), newHistogram()); err != nil {
			return err
		}
		seconds := 0.0
		for range pageRounds {
			took, err := run(o.Time/(2*pageRounds), pages)
			if err != nil {
				return err
			}
			seconds += took.Seconds()
			if _, err := g.times(ctx, 1, o.Time/(2*pageRounds), calls, g.call(o.Page)); err != nil {
				return err
			}
		}
		r.P50, r.P99, r.Call = pages.p50(), pages.ValueAtQuantile(99), calls.p50()
		r.Rate = float64(pages.TotalCount()) / seconds
		r.Ratio = float64(r.P50) / float64(max(r.Call, 1))
		return nil
	})
}

// RunCopies measures the scenarios of the page driver's design, one page at a time.
func RunCopies(ctx context.Context, o PagesOptions, out func(CopiesRow) error) error {
	return o.with(ctx, func(g *pager) error {
		for _, page := range []int{4096, 8192} {
			for _, s := range []struct {
				name string
				do   func(*netmem.Client) operation
			}{
				{"out", func(c *netmem.Client) operation { return pageOut(c, page) }},
				{"in", pageView},
				{"in, naive", func(c *netmem.Client) operation { return pageIn(c, page) }},
			} {
				row, err := g.scenario(ctx, page, s.do)
				if err != nil {
					return err
				}
				row.Scenario = fmt.Sprintf("%dK %s", page/1024, s.name)
				if err := out(row); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// scenario measures one scenario with its own client. It goes round the pages once, so all pages
// that go out are new.
func (g *pager) scenario(ctx context.Context, page int, do func(*netmem.Client) operation) (r CopiesRow, err error) {
	c, err := g.client(ctx, page)
	if err != nil {
		return r, err
	}
	defer c.Close()
	op, h := do(c), newHistogram()
	if err := op(ctx, 0); errors.Is(err, netmem.ErrMissing) {
		if err := fillPages(ctx, c, page); err != nil {
			return r, err
		}
	} else if err != nil {
		return r, err
	}
	bytes, pages, err := g.copies(ctx, c, h, op)
	if err != nil {
		return r, err
	}
	for i := range uint64(pagesUsed + 1) {
		if err := c.DiscardPage(ctx, i); err != nil {
			return r, err
		}
	}
	return CopiesRow{Bench: KindPages, Sealed: g.o.Sealed, Link: g.o.Link, Copies: float64(bytes) / float64(pages*page),
		P50: h.p50()}, nil
}

// counted is how many pages are counted together.
const counted = 64

// copies does an operation with each page, and returns how many bytes were copied for how many
// pages. A page that comes twice is copied twice. So batches with a repeated request are left
// out, unless all batches have one.
func (g *pager) copies(
	ctx context.Context, c *netmem.Client, h *times, op operation,
) (bytes uint64, pages int, err error) {
	var allBytes uint64
	for i := uint64(0); i < pagesUsed; i += counted {
		before, err := g.copied(ctx, c)
		if err != nil {
			return 0, 0, err
		}
		repeated := c.Stats().Repeated
		for k := range uint64(counted) {
			begun := time.Now()
			if err := op(ctx, 1+i+k); err != nil {
				return 0, 0, err
			}
			h.note(time.Since(begun))
		}
		after, err := g.copied(ctx, c)
		if err != nil {
			return 0, 0, err
		}
		allBytes += after - before
		if c.Stats().Repeated == repeated {
			bytes, pages = bytes+after-before, pages+counted
		}
	}
	if pages == 0 {
		return allBytes, pagesUsed, nil
	}
	return bytes, pages, nil
}

// copied returns how many bytes of pages both sides have copied.
func (g *pager) copied(ctx context.Context, c *netmem.Client) (uint64, error) {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	st, err := netmem.Stat(wait, g.p, pageServer)
	ours := c.Stats()
	return st.CopiedBytes + ours.CopiedBytes + ours.HandedBytes, err
}

func (g *pager) client(ctx context.Context, page int) (*netmem.Client, error) {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return netmem.NewClient(wait, g.p, netmem.ClientConfig{Servers: []netmem.ServerRef{{Name: pageServer}},
		PageBytes: page})
}

func fillPages(ctx context.Context, c *netmem.Client, page int) error {
	out := pageOut(c, page)
	for i := range uint64(pagesUsed + 1) {
		if err := out(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// operation does something with a page.
type operation func(ctx context.Context, number uint64) error

// pageIn reads pages into buffers that it reuses, as callers would.
func pageIn(c *netmem.Client, page int) operation {
	buffers := sync.Pool{New: func() any { return new([8192]byte) }}
	return func(ctx context.Context, n uint64) error {
		buf := buffers.Get().(*[8192]byte)
		defer buffers.Put(buf)
		return c.ReadPage(ctx, n, buf[:page])
	}
}

// manyPages reads or writes random pages for the time d, with o.Depth in flight, from one
// goroutine.
func manyPages(
	ctx context.Context, many func(context.Context, int, func() (uint64, []byte, bool),
		func(uint64, []byte, error)) error, o *PagesOptions, d time.Duration, into *times,
) (time.Duration, error) {
	var failed error
	free, begun := make([][]byte, o.Depth), make(map[*byte]time.Duration, o.Depth)
	for i := range free {
		free[i] = make([]byte, o.Page)
	}
	r, start := rand.New(rand.NewPCG(1, 1)), time.Now()
	now := time.Duration(0)
	err := many(ctx, o.Depth, func() (uint64, []byte, bool) {
		if now = time.Since(start); now >= d || failed != nil {
			return 0, nil, false
		}
		buf := free[len(free)-1]
		free = free[:len(free)-1]
		begun[&buf[0]] = now
		return r.Uint64N(pagesUsed), buf, true
	}, func(_ uint64, buf []byte, err error) {
		failed = errors.Join(failed, err)
		into.note(time.Since(start) - begun[&buf[0]])
		free = append(free, buf)
	})
	return time.Since(start), errors.Join(failed, err)
}

func pageView(c *netmem.Client) operation {
	return func(ctx context.Context, n uint64) error { return c.ViewPage(ctx, n, func([]byte) {}) }
}

func pageOut(c *netmem.Client, page int) operation {
	data := make([]byte, page)
	for i := range data {
		data[i] = byte(i ^ i>>8)
	}
	return func(ctx context.Context, n uint64) error { return c.WritePage(ctx, n, data) }
}

// call makes calls whose answers are as long as a page.
func (g *pager) call(page int) operation {
	buf := make([]byte, page)
	return func(ctx context.Context, _ uint64) error {
		_, err := g.p.Peer(pageCalls).Call(ctx, tagPageCall+weft.Tag(page), nil, buf)
		return err
	}
}

// times does an operation with random pages for the time d, with depth in flight, and returns
// the actual time.
func (g *pager) times(
	ctx context.Context, depth int, d time.Duration, into *times, do operation,
) (time.Duration, error) {
	all := make([]*times, depth)
	begun := time.Now()
	err := load.Together(ctx, depth, func(ctx context.Context, i int) error {
		all[i] = newHistogram()
		r := rand.New(rand.NewPCG(uint64(i), 1))
		for last := time.Duration(0); last < d; {
			if err := do(ctx, r.Uint64N(pagesUsed)); err != nil {
				return err
			}
			now := time.Since(begun)
			all[i].note(now - last)
			last = now
		}
		return nil
	})
	took := time.Since(begun)
	for _, h := range all {
		if h != nil {
			into.Merge(h.Histogram)
		}
	}
	return took, err
}
