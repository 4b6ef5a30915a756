package netmem

import (
	"context"
	"errors"
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

// ClientConfig configures a Client. Only Servers is required.
type ClientConfig struct {
	// Servers lists the page servers that the client uses at first. Later, AddServer adds servers
	// and RemoveServer removes them.
	Servers []ServerRef

	// Copies is the number of servers that hold a copy of each page, at most len(Servers). 0 means
	// 1.
	Copies int

	// Coding makes the client cut each page into shards instead of copying the page. A page that is
	// cut into shards survives the loss of Parity servers. The shards of a page together take
	// (Data+Parity)/Data of the size of the page. A read needs Data of the servers that hold the
	// shards. A write needs Data+Parity servers. Data must be at least 2, Parity at least 1, and
	// Data+Parity at most 32. If Coding is the zero Code, the client makes copies instead of
	// shards.
	Coding Code

	// Compress makes the client compress a page if the page then takes less room. Compression saves
	// bytes on the network and room on the servers. If a page does not shrink, the attempt only
	// costs time.
	Compress bool

	// PageBytes is the size of a page in bytes: 4096 or 8192. 0 means 4096.
	PageBytes int

	// Volume is a number that the user of the client chooses. The servers store and count the
	// client's pages under this number. See [VolumeUse].
	Volume uint64

	// Retry is the shortest time before the client retransmits a request that has no answer. The
	// time doubles with each retransmission, up to a quarter of Dead. If the server usually takes
	// longer than Retry to answer, the client waits for that usual answer time before it
	// retransmits. 0 means 2 ms.
	Retry time.Duration

	// Hedge is the shortest time before a read asks a second server. If the first server usually
	// takes longer than Hedge to answer, the read waits for that usual answer time before it asks a
	// second server. 0 means 1 ms.
	Hedge time.Duration

	// Dead is the time of silence after which the client counts a server as dead. 0 means 500 ms.
	Dead time.Duration

	// RepairBytes limits the rate of writes that replace lost copies, in bytes of pages per second.
	// A write that fails because the servers are full also counts. 0 means 64 MiB per second.
	RepairBytes int

	defect mutate.PageDefect // for tests
	window int               // for tests: most requests in flight to one server; 0: see most
}

// ServerRef holds the name and the weight of a page server.
type ServerRef struct {
	// Name is the name of the server's process.
	Name weft.Name

	// Weight is the server's share of the pages, relative to the weights of the other servers. 0
	// means 1.
	Weight float64
}

// ClientStats holds the state and the counters of a client. The counters start at 0 when NewClient
// starts the client.
type ClientStats struct {
	Pages     int  `json:"pages"`      // pages that the client stores
	Lacking   int  `json:"lacking"`    // pages that have too few copies or shards now
	ServersUp int  `json:"servers_up"` // servers that are up and not being removed
	Code      Code `json:"code"`       // number of copies or shards of each page
	// Pending is the number of pages whose content waits in the client until a repair writes it.
	Pending  int    `json:"pending"`
	PageOuts uint64 `json:"page_outs"` // successful page writes
	PageIns  uint64 `json:"page_ins"`  // successful page reads
	Repeated uint64 `json:"repeated"`  // retransmissions of requests
	Hedged   uint64 `json:"hedged"`    // requests to a second server if the first is slow
	Waited   uint64 `json:"waited"`    // requests delayed by the limit for one server
	Damaged  uint64 `json:"damaged"`   // malformed messages, and pages with a wrong checksum
	// Stale is the number of rejected answers that are older than the last acknowledged write.
	Stale       uint64 `json:"stale"`
	Deaths      uint64 `json:"deaths"`       // times that the client found a server dead
	Restarts    uint64 `json:"restarts"`     // times that the client found a server restarted
	Repaired    uint64 `json:"repaired"`     // pages to which a repair gave a new copy
	CopiedBytes uint64 `json:"copied_bytes"` // page bytes copied in memory during receives
	PlainBytes  uint64 `json:"plain_bytes"`  // bytes of written pages; copies do not count
	KeptBytes   uint64 `json:"kept_bytes"`   // bytes of the same pages after compression
	HandedBytes uint64 `json:"handed_bytes"` // page bytes copied into buffers of callers
}

// Client stores pages on page servers. Several goroutines may use a Client concurrently. After
// Close or the end of the process, the methods of a Client fail with [weft.ErrClosed].
type Client struct {
	p    *weft.Process
	cfg  ClientConfig
	code Code
	port *port

	// begun distinguishes this client from earlier clients of its process, at servers that the
	// client has not left.
	begun uint64

	coder reedsolomon.Encoder

	// port.mu guards the fields from here to look.
	servers []*server
	// anew holds the time at which the client last left a server. Its next life there begins at
	// that time.
	anew      map[weft.Name]uint64
	pages     map[uint64]*page // by number
	calls     map[uint32]*call // by request
	request   uint32
	sends     map[uint64]*call // by cookie: calls whose memory the driver has
	cookie    uint64
	collects  bool // requests for pages wait for depart
	departing []*server
	found     []*server // reused by beginRead
	pendings  int       // pages with pending content
	// version is the last version given to any page. A discarded page that is written again
	// continues after it.
	version uint64
	stats   ClientStats

	repairing bool // a repair is in progress
	look      look // pages that a repair must look at

	handed    atomic.Uint64 // page bytes copied for callers
	scratches sync.Pool
	closed    atomic.Bool
}

// call is one request in flight.
type call struct {
	to     *server
	record record
	header [recordLen]byte
	data   []byte
	begun  clock.Time // when its request was first sent
	held   int        // sends that the driver has not finished
	with   bool       // the request is with the server: see window
	waits  bool       // the request waits to be sent: see window

	done   atomic.Bool // the answer is here
	answer record
	msg    hsn.Message
	failed error
}

// NewClient starts a client on the process p and waits until each server in cfg.Servers has
// answered. A process can have one Client or one [Server] at a time. If p already has one of them,
// NewClient fails with [weft.ErrPortInUse].
//
// NewClient fails if a server refuses the client, if a server is silent for cfg.Dead, or if ctx
// ends. NewClient fails with [weft.ErrBadArgument] if cfg is not valid. The client does not use ctx
// after NewClient has returned.
func NewClient(ctx context.Context, p *weft.Process, cfg ClientConfig) (*Client, error) {
	return newClient(ctx, p, cfg, (*Client).AddServer)
}

// newClient starts a client. The function add adds each of its servers.
func newClient(
	ctx context.Context, p *weft.Process, cfg ClientConfig,
	add func(c *Client, ctx context.Context, ref ServerRef) error,
) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if cfg.PageBytes != hsn.HalfPage && cfg.PageBytes != hsn.MaxPage {
		return nil, badArgument("netmem: pages of %d bytes; expected %d or %d",
			cfg.PageBytes, hsn.HalfPage, hsn.MaxPage)
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
	c := &Client{p: p, cfg: cfg, code: code, coder: coder, port: o,
		begun: moment(p.Runtime().Now()), version: uint64(p.Runtime().Now().UnixNano()),
		pages: map[uint64]*page{}, calls: map[uint32]*call{}, anew: map[weft.Name]uint64{}, sends: map[uint64]*call{}}
	o.late.pause = min(cfg.Retry, cfg.Hedge)
	o.looks = func() bool { return len(c.calls) > 0 }
	if err := o.begin(cfg.PageBytes, hsn.Client, hsn.Module{Receive: c.receive, Sent: c.sent}); err != nil {
		return nil, err
	}
	p.Runtime().Go(o.watch)
	for _, s := range cfg.Servers {
		if err := add(c, ctx, s); err != nil {
			c.Close()
			return nil, err
		}
	}
	p.Runtime().Go(c.attend)
	return c, nil
}

// complete sets the defaults and refuses invalid values.
func (cfg *ClientConfig) complete() error {
	for _, d := range []struct {
		name  string
		v     *time.Duration
		usual time.Duration
	}{{"Retry", &cfg.Retry, 2 * time.Millisecond}, {"Hedge", &cfg.Hedge, time.Millisecond},
		{"Dead", &cfg.Dead, 500 * time.Millisecond}} {
		if *d.v < 0 {
			return badArgument("netmem: %s is %v; expected more than 0, or 0 for %v", d.name, *d.v, d.usual)
		}
		if *d.v == 0 {
			*d.v = d.usual
		}
	}
	if cfg.RepairBytes < 0 {
		return badArgument("netmem: RepairBytes is %d; expected more than 0, or 0 for %d", cfg.RepairBytes, repairUsual)
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

// repairUsual is the default of RepairBytes.
const repairUsual = 64 << 20

// clientSpare is the number of pages that a client has in addition to its receive queue. They hold
// answers that callers still use.
const clientSpare = 256

// Close ends the client and discards its pages. Close tells all servers that are up to free the
// room of the pages, and waits at most 250 ms for the answers of these servers.
func (c *Client) Close() {
	if !c.closed.Swap(true) {
		c.leaveAll()
	}
	c.port.close()
}

// Stats returns the state and the counters of the client.
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
	r.request = c.request
	if !r.shelved {
		r.volume = c.cfg.Volume
	}
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

// transmit sends a request, for the first time or again. If the driver refuses the request, it
// counts as lost.
func (c *Client) transmit(k *call) {
	c.cookie++
	a := k.to.addr
	k.held++ // first, because Send may call sent before it returns
	c.sends[c.cookie] = k
	if c.port.driver.Send(hsn.Client, hsn.Host{NIC: uint64(a.NIC), Slot: a.Slot, Gen: a.Generation},
		k.data, k.header[:], c.cookie) != nil {
		c.sent(c.cookie)
	}
}

// again retransmits a request that was sent but has no answer.
func (c *Client) again(k *call) {
	if k.waits || k.done.Load() {
		return
	}
	c.stats.Repeated++
	c.transmit(k)
}

// sent records that the driver no longer uses the memory of a request.
func (c *Client) sent(cookie uint64) {
	c.sends[cookie].held--
	delete(c.sends, cookie)
}

// receive handles an incoming answer. The port's lock is held.
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
		c.port.driver.Free(&m) // its request already has an answer, or has ended
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

// asked reports whether an answer belongs to this call. Without this check, it could belong to a
// call of an earlier client of the process that used the same request number. No two clients begin
// at the same time, and no two lives have the same epoch.
func (k *call) asked(r *record) bool {
	if k.record.op == opOpen {
		return r.op == opOpen && r.version == k.record.version
	}
	return r.op == k.record.op && r.epoch == k.record.epoch
}

// mostEndPause is the longest pause between two checks of the driver in end.
const mostEndPause = time.Millisecond

// end forgets a request and frees its answer. If the driver still uses the data of the request, end
// waits, so that the caller can reuse the memory of the data. That takes long only if the NIC
// stalls. A closed client waits too, because the NIC still sends the packets that it has.
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

// forget is like end, but for a request without data. It does not wait, because the call owns the
// header. The port's lock is held.
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

// ask sends a request to a server and waits for the answer. It retransmits the request until the
// server answers, the server counts as dead, or ctx ends. The caller must call end for the returned
// call.
func (c *Client) ask(ctx context.Context, to *server, r record, data []byte) *call {
	c.port.mu.Lock()
	k := c.begin(to, r, data)
	c.port.mu.Unlock()
	c.finish(ctx, k)
	return k
}

// finish waits for the answer to a request in flight, as ask does.
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
			k.failed = errDown // another call has noticed it
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

// silent reports whether the server of a call has been silent for at least Dead. The port's lock is
// held.
func (c *Client) silent(k *call) bool {
	return !k.waits && c.port.now().Sub(max(k.begun, k.to.heard)) >= c.cfg.Dead
}

// waitFor waits until one of the calls has its answer. After the duration d, it returns
// context.DeadlineExceeded.
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

// errLate is the error that waitUntil returns after its timeout.
var errLate = errors.New("netmem: the answer is late")

// waitUntil waits until the function done returns true. After the duration d, it returns errLate.
// If d is 0, there is no timeout.
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

// answered returns nil if a call has its answer, whatever status the answer has. Otherwise answered
// returns the error of the call.
func (k *call) answered() error {
	if k.done.Load() && k.failed == nil {
		return nil
	}
	return k.failed
}
