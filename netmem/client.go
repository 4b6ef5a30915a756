package netmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/reedsolomon"
	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/internal/mutate"
)

// What a client's calls fail with.
var (
	ErrFull    = errors.New("netmem: the servers have no room for another copy")
	ErrMissing = errors.New("netmem: no such page")
	ErrLost    = errors.New("netmem: all copies of the page are lost")
	ErrFew     = errors.New("netmem: fewer servers are up than a page has copies")
)

// ClientConfig configures a Client.
type ClientConfig struct {
	// Servers are the page servers. More may join, and some leave: see AddServer and RemoveServer.
	Servers []ServerRef

	// Copies is on how many servers a page is; zero: 1.
	Copies int

	// Coding has a page cut into shards, in place of copies: it outlives Parity servers, and takes (Data+Parity)/Data of its size. Reading it
	// takes Data servers, and writing it all. The zero Code: copies.
	Coding Code

	// Compress has pages compressed that are smaller then: less is sent, and servers have room for more. Where pages do not shrink, it costs
	// time and gains nothing.
	Compress bool

	// PageBytes is the size of a page: 4096, the default, or 8192.
	PageBytes int

	// Volume is a number under which servers keep, and count, what the client has: see [VolumeUse].
	Volume uint64

	// Retry is after what time a request is repeated at the soonest, twice as long each time up to a quarter of Dead; zero: 2 ms. It is not
	// repeated before the server would usually have answered.
	Retry time.Duration

	// Hedge is after what time a second copy is asked for at the soonest, while the first does not answer; zero: 1 ms. It is not asked for
	// before the first would usually have come.
	Hedge time.Duration

	// Dead is after what time a server that answers nothing is taken for dead; zero: 500 ms.
	Dead time.Duration

	// RepairBytes is how many bytes a second new copies of pages of dead servers may take, and those that no server has room for; zero: 64 MiB.
	RepairBytes int

	defect mutate.PageDefect // for tests
	window int               // too: how many requests a server may have at a time; zero: see most
}

// ServerRef names a server.
type ServerRef struct {
	Name   weft.Name
	Weight float64 // its share of the pages, against the others'; zero: 1
}

// ClientStats is what a client has done.
type ClientStats struct {
	Pages       int    `json:"pages"`
	Lacking     int    `json:"lacking"` // pages that have fewer copies than they should just now
	ServersUp   int    `json:"servers_up"`
	Code        Code   `json:"code"`
	Pending     int    `json:"pending"`   // pages that a write could not write, and a repair is to: the client has them
	PageOuts    uint64 `json:"page_outs"` // that have succeeded, as are the next
	PageIns     uint64 `json:"page_ins"`
	Repeated    uint64 `json:"repeated"` // requests that were
	Hedged      uint64 `json:"hedged"`
	Waited      uint64 `json:"waited"`       // requests that others were sent before: as many as there are buffers for were with their server
	Damaged     uint64 `json:"damaged"`      // answers with a wrong checksum
	Stale       uint64 `json:"stale"`        // and with an older version than was acknowledged
	Deaths      uint64 `json:"deaths"`       // of servers
	Restarts    uint64 `json:"restarts"`     // of servers
	Repaired    uint64 `json:"repaired"`     // pages that were given a new copy
	CopiedBytes uint64 `json:"copied_bytes"` // of pages, by the page driver
	PlainBytes  uint64 `json:"plain_bytes"`  // of pages that were written, each counted once
	KeptBytes   uint64 `json:"kept_bytes"`   // that servers keep these as: fewer if they are compressed
	HandedBytes uint64 `json:"handed_bytes"` // of pages, copied to where callers want them
}

// Client keeps pages on page servers. Any number of goroutines may use it at once. Calls fail with [weft.ErrClosed] after Close, and when the process has ended.
type Client struct {
	p    *weft.Process
	cfg  ClientConfig
	code Code
	port *port

	begun uint64 // tells it from those that the process had before, at servers that it has not left

	coder reedsolomon.Encoder

	// All that follows is under port.mu.
	servers   []*server
	anew      map[weft.Name]uint64 // when it has left servers last: if it uses them again, it begins there then
	pages     map[uint64]*page
	calls     map[uint32]*call
	request   uint32
	sends     map[uint64]*call // by cookie: whose memory the driver has
	cookie    uint64
	collects  bool // requests for pages wait for depart
	departing []*server
	found     []*server // memory for those that a page may be read from
	pendings  int       // pages with what a repair is to write
	version   uint64    // the last that a page was given: a page that was discarded begins behind it
	stats     ClientStats

	repairing bool // new copies are being made
	look      look // for pages that need it

	handed    atomic.Uint64 // bytes of pages that were copied for callers
	scratches sync.Pool
	closed    atomic.Bool
}

// call is a request under way.
type call struct {
	to     *server
	record record
	header [recordLen]byte
	data   []byte
	begun  clock.Time // when its request was first sent
	held   int        // how often the driver has its memory
	with   bool       // its request is with the server: see window
	waits  bool       // and this one's is to be

	done   atomic.Bool // the answer is here
	answer record
	msg    hsn.Message
	failed error
}

// NewClient makes a client of page servers on a process, which may have one Client or one [Server] at a time. It waits until each server has answered, or until
// ctx ends, which has no say afterwards. A server that does not answer is an error.
func NewClient(ctx context.Context, p *weft.Process, cfg ClientConfig) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if cfg.PageBytes != hsn.HalfPage && cfg.PageBytes != hsn.MaxPage {
		return nil, fmt.Errorf("netmem: pages of %d bytes; expected %d or %d", cfg.PageBytes, hsn.HalfPage, hsn.MaxPage)
	}
	code, err := cfg.code()
	if err != nil {
		return nil, err
	}
	coder, err := code.coder()
	if err != nil {
		return nil, err
	}
	o, err := newPort(p, cfg.PageBytes, clientSpare, cfg.defect)
	if err != nil {
		return nil, err
	}
	c := &Client{p: p, cfg: cfg, code: code, coder: coder, port: o, begun: moment(p.Runtime().Now()), version: uint64(p.Runtime().Now().UnixNano()), pages: map[uint64]*page{}, calls: map[uint32]*call{}, anew: map[weft.Name]uint64{}, sends: map[uint64]*call{}}
	o.late.pause = min(cfg.Retry, cfg.Hedge)
	o.looks = func() bool { return len(c.calls) > 0 }
	if err := o.begin(cfg.PageBytes, hsn.Client, hsn.Module{Receive: c.receive, Sent: c.sent}); err != nil {
		return nil, err
	}
	p.Runtime().Go(o.watch)
	for _, s := range cfg.Servers {
		if err := c.AddServer(ctx, s); err != nil {
			c.Close()
			return nil, err
		}
	}
	p.Runtime().Go(c.attend)
	return c, nil
}

// complete sets what the configuration leaves to the client, and refuses what cannot be.
func (cfg *ClientConfig) complete() error {
	for _, d := range []struct {
		name  string
		v     *time.Duration
		usual time.Duration
	}{{"Retry", &cfg.Retry, 2 * time.Millisecond}, {"Hedge", &cfg.Hedge, time.Millisecond}, {"Dead", &cfg.Dead, 500 * time.Millisecond}} {
		if *d.v < 0 {
			return fmt.Errorf("netmem: %s is %v; expected more than 0, or 0 for %v", d.name, *d.v, d.usual)
		}
		if *d.v == 0 {
			*d.v = d.usual
		}
	}
	if cfg.RepairBytes < 0 {
		return fmt.Errorf("netmem: RepairBytes is %d; expected more than 0, or 0 for %d", cfg.RepairBytes, repairUsual)
	}
	for _, d := range []struct {
		v     *int
		usual int
	}{{&cfg.Copies, 1}, {&cfg.PageBytes, hsn.HalfPage}, {&cfg.RepairBytes, repairUsual}} {
		if *d.v == 0 {
			*d.v = d.usual
		}
	}
	return nil
}

// repairUsual is how many bytes a second new copies may take unless the configuration says otherwise.
const repairUsual = 64 << 20

// clientSpare is how many pages a client has beside its receive queue: those that callers look at.
const clientSpare = 256

// Close ends the client. Its pages are lost, and the servers that are up have their room back. It waits for these, a quarter of a second at most.
func (c *Client) Close() {
	if !c.closed.Swap(true) {
		c.leaveAll()
	}
	c.port.close()
}

// Stats is what the client has done so far.
func (c *Client) Stats() ClientStats {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	st := c.stats
	st.Code, st.Pending = c.code, c.pendings
	st.Pages, st.CopiedBytes = len(c.pages), c.port.driver.Counts().CopiedBytes
	st.ServersUp, st.HandedBytes, st.Lacking = len(c.live()), c.handed.Load(), c.lacking()
	return st
}

// begin sends a request. The port's lock is held.
func (c *Client) begin(to *server, r record, data []byte) *call {
	c.request++
	r.request, r.volume = c.request, c.cfg.Volume
	if r.op != opOpen {
		r.epoch = to.epoch
	}
	k := &call{to: to, record: r, data: data, begun: c.port.now()}
	k.record.put(k.header[:])
	c.calls[r.request] = k
	if c.port.err != nil {
		k.failed = c.port.err
		k.done.Store(true)
		return k
	}
	c.send(k)
	return k
}

// transmit sends a request, once more maybe. What the driver does not take is as good as lost.
func (c *Client) transmit(k *call) {
	c.cookie++
	a := k.to.addr
	k.held++ // it may have left before Send returns
	c.sends[c.cookie] = k
	if c.port.driver.Send(hsn.Client, hsn.Host{NIC: uint64(a.NIC), Slot: a.Slot, Gen: a.Generation}, k.data, k.header[:], c.cookie) != nil {
		c.sent(c.cookie)
	}
}

// again repeats a request that was sent and has no answer.
func (c *Client) again(k *call) {
	if k.waits || k.done.Load() {
		return
	}
	c.stats.Repeated++
	c.transmit(k)
}

// sent takes a request's memory back from the driver.
func (c *Client) sent(cookie uint64) {
	c.sends[cookie].held--
	delete(c.sends, cookie)
}

// receive takes an answer. The port's lock is held.
func (c *Client) receive(now clock.Time, m hsn.Message) {
	var r record
	if r.parse(m.Header) != nil {
		c.stats.Damaged++
		c.port.driver.Free(&m)
		return
	}
	k := c.calls[r.request]
	if k == nil || k.done.Load() || !k.asked(&r) || k.to.host() != m.From {
		if c.cfg.defect == mutate.PagesAnswerLeak {
			return
		}
		c.port.driver.Free(&m) // of a request that has had its answer
		return
	}
	k.to.heard = now
	k.to.took(now.Sub(k.begun))
	k.answer, k.msg = r, m
	if r.op != opPageIn || r.status != statusOK {
		c.port.driver.Free(&k.msg)
	}
	c.leave(k)
	k.done.Store(true)
	c.port.wakes = true
}

// asked reports whether an answer is to what a call has asked for, and not to what an earlier client of the process has, whose requests had the same numbers. No two
// clients begin at the same time, and no two lives have the same epoch.
func (k *call) asked(r *record) bool {
	if k.record.op == opOpen {
		return r.op == opOpen && r.version == k.record.version
	}
	return r.op == k.record.op && r.epoch == k.record.epoch
}

// mostEndPause is how long end waits at a time, at most.
const mostEndPause = time.Millisecond

// end forgets a request, and what came for it. The memory of a page that it has sent may be the driver's for a little longer: end waits for that, so that
// the caller can reuse it: not long, unless the NIC stands still. That is so when the client has been closed, too: what the NIC has been given it sends.
func (c *Client) end(k *call) {
	c.port.mu.Lock()
	c.forget(k)
	for pause := time.Microsecond; k.held > 0 && k.data != nil; pause = min(2*pause, mostEndPause) {
		if c.port.driver.Output(); k.held > 0 {
			c.port.mu.Unlock()
			_ = c.p.Runtime().Sleep(context.Background(), pause)
			c.port.mu.Lock()
		}
	}
	c.port.mu.Unlock()
}

// forget is end for a request without data: its header is its own, so that no caller waits until the driver lets go of that. The port's lock is held.
func (c *Client) forget(k *call) {
	delete(c.calls, k.record.request)
	c.leave(k)
	c.port.driver.Free(&k.msg)
	if k.held == 0 || k.data != nil {
		return
	}
	if c.port.driver.Output(); k.held > 0 {
		c.port.sentBeside()
	}
}

// ask sends a request to a server and waits for the answer: it repeats the request until the server is taken for dead, or ctx ends.
// The caller ends the call.
func (c *Client) ask(ctx context.Context, to *server, r record, data []byte) *call {
	c.port.mu.Lock()
	k := c.begin(to, r, data)
	c.port.mu.Unlock()
	c.finish(ctx, k)
	return k
}

// finish waits for the answer to a request that has begun, as ask does.
func (c *Client) finish(ctx context.Context, k *call) {
	to := k.to
	c.port.mu.Lock()
	most := max(c.cfg.Retry, c.cfg.Dead/4)
	wait := to.patience(c.cfg.Retry, most)
	c.port.mu.Unlock()
	for ; !k.done.Load(); wait = min(2*wait, most) {
		err := c.waitFor(ctx, wait, k)
		if err == nil {
			break
		}
		c.port.mu.Lock()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			k.failed = err
		} else if c.silent(k) {
			k.failed = errSilent
		} else if !to.up && k.record.op != opOpen {
			k.failed = errDown // as another call has noticed
		}
		if k.failed == nil {
			c.again(k)
		}
		c.port.mu.Unlock()
		if k.failed != nil {
			break
		}
	}
}

var (
	errSilent = errors.New("netmem: the server is silent")
	errDown   = errors.New("netmem: the server is down")
)

// silent reports whether the server of a call has been so for so long that it is taken for dead. The port's lock is held.
func (c *Client) silent(k *call) bool {
	return !k.waits && c.port.now().Sub(max(k.begun, k.to.heard)) >= c.cfg.Dead
}

// waitFor waits until one of some calls has its answer. If that takes longer than d, it is context.DeadlineExceeded.
func (c *Client) waitFor(ctx context.Context, d time.Duration, calls ...*call) error {
	done := func() bool { return slices.ContainsFunc(calls, (*call).isDone) }
	for {
		since := c.port.now()
		err := c.waitUntil(ctx, d, done)
		if !errors.Is(err, errLate) {
			return err
		}
		c.port.mu.Lock()
		again := early(calls, since)
		c.port.mu.Unlock()
		if !again {
			return context.DeadlineExceeded
		}
	}
}

// errLate is what waitUntil returns when its time is over.
var errLate = errors.New("netmem: the answer is late")

// waitUntil waits until done, and no longer than d, if that is not 0: it is errLate then.
func (c *Client) waitUntil(ctx context.Context, d time.Duration, done func() bool) error {
	o := c.port
	if d == 0 {
		return o.wait(ctx, done)
	}
	l := new(deadline)
	o.mu.Lock()
	o.set(l, d)
	o.mu.Unlock()
	err := o.wait(ctx, func() bool { return done() || l.passed.Load() })
	o.mu.Lock()
	o.unset(l)
	o.mu.Unlock()
	if err != nil || done() {
		return err
	}
	return errLate
}

func (k *call) isDone() bool { return k.done.Load() }

// answered looks at how a call has ended: nil if it has its answer, whatever that says.
func (k *call) answered() error {
	if k.done.Load() && k.failed == nil {
		return nil
	}
	return k.failed
}
