package rel

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// weather is the effect of a pipe on frames.
type weather struct {
	loss, dup, reorder, corrupt float64       // probability per frame
	delay                       time.Duration // one way
	jitter                      time.Duration // most, of a reordered frame
	nsPerByte                   float64       // of the sender's line; 0 = infinitely fast
	buffer                      int           // full frames that the line queues; 0 = unlimited
	socket                      int           // bytes of a receiver's socket buffer; 0 = unlimited
}

// flying is a frame in flight.
type flying struct {
	at    clock.Time
	order int
	from  netip.AddrPort
	to    *node
	here  netip.Addr // address of the receiver
	frame []byte
}

type flyingHeap []*flying

func (h flyingHeap) Len() int { return len(h) }
func (h flyingHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h flyingHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *flyingHeap) Push(x any)   { *h = append(*h, x.(*flying)) }
func (h *flyingHeap) Pop() any {
	old := *h
	f := old[len(old)-1]
	*h = old[:len(old)-1]
	return f
}

// world is a few modules on virtual time with a lossy network between them.
type world struct {
	keys       map[uint64]trust.PublicKey // of nodes whose links are sealed
	t          testing.TB
	rng        *rand.Rand
	now        clock.Time
	weather    weather
	nodes      []*node
	air        flyingHeap
	order      int
	sent       int
	lost       int
	overflowed int
	filter     func(from, to *node, frame []byte) bool // false: the frame is lost
	polls      int
}

// node is a module with an owner that remembers its calls.
type node struct {
	w    *world
	m    *Module
	cfg  Config
	addr netip.AddrPort
	buf  []byte
	to   netip.AddrPort
	// Further addresses of the host of a node that takes frames at all of them.
	hosts []netip.Addr
	// The source of frames that leave and name none; invalid: addr.
	routes   netip.Addr
	source   netip.Addr // of the next reservation
	leaves   netip.AddrPort
	at       netip.Addr // where the frame that is being handed over has arrived
	next     clock.Time
	asleep   clock.Time // not polled before then
	inbox    []*flying
	held     int // bytes in the inbox, as the kernel counts them
	lineFree clock.Time

	got      map[string]int // payload → times delivered
	order    []string
	released []*Fragment
	ups      int
	downs    []error
	writable int
	outdated int // number of calls of Outdated
	refuse   func(nic uint64, from netip.AddrPort) error
	deliver  func(e *Endpoint, r wire.Record)
	places   func(offset uint64) bool // whether pieces are placed; nil if none are
	placing  []byte                   // the chunk that is placed
	placed   int                      // bytes of placed chunks
	onUp     func(e *Endpoint)
	onDown   func(e *Endpoint, why error)
	onRoom   func(e *Endpoint)
	onFree   func(f *Fragment)
	onAcked  func(f *Fragment, offset, n uint64)
	onGram   func(e *Endpoint, service uint8, payload []byte)
	dead     bool
	polled   func() // called after each poll

	vouch     func(nic uint64, key trust.PublicKey, certificate []byte) error
	strangers []error
}

func newWorld(t testing.TB, seed uint64, wt weather) *world {
	if wt.delay == 0 {
		wt.delay = 10 * time.Microsecond
	}
	return &world{keys: map[uint64]trust.PublicKey{}, t: t, rng: rand.New(rand.NewPCG(seed, 1)), weather: wt, now: clock.Time(time.Second)}
}

func address(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 7000)
}

// add makes a node with id i at address 10.0.0.i.
func (w *world) add(i int, change func(*Config)) *node {
	cfg := Config{NIC: uint64(i), Incarnation: 1, Secrets: secret.Seeded(w.rng.Uint64()), MTU: 1472, Tagged: true}
	if change != nil {
		change(&cfg)
	}
	n := &node{w: w, cfg: cfg, addr: address(i), buf: make([]byte, cfg.MTU), got: map[string]int{}}
	if s := cfg.Security; s != nil {
		w.keys[cfg.NIC] = s.Key.Public()
	}
	n.m = New(cfg, n)
	w.nodes = append(w.nodes, n)
	return n
}

// restart gives n a new life.
func (n *node) restart() {
	n.cfg.Incarnation++
	n.cfg.Secrets = secret.Seeded(n.cfg.Secrets.Uint64(secret.Handshake))
	n.m = New(n.cfg, n)
	n.dead, n.next = false, n.w.now
}

// open makes o known to n.
func (n *node) open(o *node) *Endpoint {
	e, err := n.m.Open(o.cfg.NIC, o.addr)
	if err != nil {
		n.w.t.Fatal(err)
	}
	return e
}

func (n *node) MTU() int { return n.cfg.MTU }

func (n *node) Reserve(to netip.AddrPort) []byte {
	n.to, n.leaves = to, n.addr
	if src := n.source; n.has(src) {
		n.leaves = netip.AddrPortFrom(src, n.addr.Port())
	} else if n.routes.IsValid() {
		n.leaves = netip.AddrPortFrom(n.routes, n.addr.Port())
	}
	n.source = netip.Addr{}
	return n.buf
}

// has reports whether ip is an address of n.
func (n *node) has(ip netip.Addr) bool { return ip == n.addr.Addr() || slices.Contains(n.hosts, ip) }

// everywhere makes the configuration's node take frames at all addresses of its host, and send
// from the named one.
func everywhere(n **node, change func(*Config)) func(*Config) {
	return func(c *Config) {
		if change != nil {
			change(c)
		}
		c.Reached = func() netip.Addr { return (*n).at }
		c.From = func(ip netip.Addr) { (*n).source = ip }
	}
}

func (n *node) Commit(k int) {
	w := n.w
	w.sent++
	var to *node
	for _, o := range w.nodes {
		if o.addr.Port() == n.to.Port() && o.has(n.to.Addr()) {
			to = o
		}
	}
	if to == nil || n.dead {
		return
	}
	frame := append([]byte(nil), n.buf[:k]...)
	if w.filter != nil && !w.filter(n, to, frame) || to.dead {
		w.lost++
		return
	}
	if w.rng.Float64() < w.weather.corrupt {
		frame[w.rng.IntN(len(frame))] ^= byte(1 + w.rng.IntN(255))
	}
	at := w.now
	if w.weather.nsPerByte > 0 {
		line := float64(len(frame)+42) * w.weather.nsPerByte
		if w.weather.buffer > 0 && float64(n.lineFree.Sub(at)) > float64(w.weather.buffer*1514)*w.weather.nsPerByte {
			w.lost++
			return
		}
		n.lineFree = max(n.lineFree, at).Add(time.Duration(line))
		at = n.lineFree
	}
	if w.rng.Float64() < w.weather.loss {
		w.lost++
		return
	}
	copies := 1
	if w.rng.Float64() < w.weather.dup {
		copies = 2
	}
	for range copies {
		late := w.weather.delay
		if w.rng.Float64() < w.weather.reorder {
			late += time.Duration(w.rng.Int64N(int64(w.weather.jitter) + 1))
		}
		w.order++
		heap.Push(&w.air, &flying{at.Add(late), w.order, n.leaves, to, n.to.Addr(), frame})
	}
}

func (n *node) Admit(now clock.Time, nic uint64, from netip.AddrPort) error {
	if n.refuse != nil {
		return n.refuse(nic, from)
	}
	return nil
}

func (n *node) Vouch(_ clock.Time, nic uint64, _ netip.AddrPort, key trust.PublicKey, certificate []byte) error {
	if n.vouch != nil {
		return n.vouch(nic, key, certificate)
	}
	if n.cfg.Security != nil && n.w.keys[nic] != key {
		return errors.New("another key")
	}
	return nil
}

func (n *node) Stranger(_ clock.Time, _ netip.AddrPort, why error) {
	n.strangers = append(n.strangers, why)
}

func (n *node) Outdated(_ clock.Time, nic uint64, from netip.AddrPort) { n.outdated++ }

func (n *node) Deliver(now clock.Time, e *Endpoint, r wire.Record) {
	if n.deliver != nil {
		n.deliver(e, r)
		return
	}
	p := string(r.Payload())
	n.got[p]++
	n.order = append(n.order, p)
}

func (n *node) Place(e *Endpoint, id wire.FragmentID, offset uint64, size int) []byte {
	if n.places == nil || !n.places(offset) {
		return nil
	}
	n.placing = make([]byte, wire.ChunkLen+10*size)
	wire.PutChunk(n.placing, 0, id, offset, size)
	return n.placing[wire.ChunkLen:]
}

func (n *node) Placed(now clock.Time, e *Endpoint, id wire.FragmentID, size int) {
	r := wire.Record(n.placing)
	if got, _ := r.Chunk(); got != id || len(r.Payload()) < size {
		n.w.t.Fatalf("%d bytes of fragment %d were placed, where Place gave %d for %d", size, id, len(r.Payload()), got)
	}
	n.placed += size
	n.Deliver(now, e, r[:wire.ChunkLen+size])
}

func (n *node) Datagram(_ clock.Time, e *Endpoint, service uint8, payload []byte) {
	if n.onGram != nil {
		n.onGram(e, service, payload)
	}
}

func (n *node) Acknowledged(f *Fragment, offset, size uint64) {
	if n.onAcked != nil {
		n.onAcked(f, offset, size)
	}
}

func (n *node) Released(now clock.Time, f *Fragment) {
	n.released = append(n.released, f)
	if n.onFree != nil {
		n.onFree(f)
	}
}

func (n *node) Writable(now clock.Time, e *Endpoint) {
	n.writable++
	if n.onRoom != nil {
		n.onRoom(e)
	}
}

func (n *node) Up(now clock.Time, e *Endpoint) {
	n.ups++
	if n.onUp != nil {
		n.onUp(e)
	}
}

func (n *node) Down(now clock.Time, e *Endpoint, why error) {
	n.downs = append(n.downs, why)
	if n.onDown != nil {
		n.onDown(e, why)
	}
}

// poll polls n: it takes the frames in its inbox, then calls Progress, after which nothing may
// be forgotten.
func (n *node) poll() {
	if n.dead {
		n.next = clock.Never
		return
	}
	// Frames of one length are handed over as a run, as when the system joins them.
	for len(n.inbox) > 0 {
		first, k := n.inbox[0], 1
		run := bytes.Clone(first.frame)
		for ; k < len(n.inbox) && n.inbox[k].from == first.from && n.inbox[k].here == first.here && len(n.inbox[k].frame) == len(first.frame); k++ {
			run = append(run, n.inbox[k].frame...)
		}
		n.at = first.here
		if n.inbox = n.inbox[k:]; k == 1 {
			n.m.Receive(n.w.now, first.from, first.frame)
		} else {
			n.m.ReceiveRun(n.w.now, first.from, run, len(first.frame))
		}
	}
	n.inbox, n.held = n.inbox[:0], 0
	_, n.next = n.m.Progress(n.w.now, n)
	if n.cfg.Defect == mutate.None {
		if err := n.m.Audit(n.w.now); err != nil {
			n.w.t.Fatalf("NIC %d at %d: %v", n.cfg.NIC, n.w.now, err)
		}
	}
	if n.polled != nil {
		n.polled()
	}
	n.w.polls++
	if n.next <= n.w.now {
		n.next = n.w.now + 100 // a turn of the poller takes its time
	}
}

// step moves time to the next event, and runs it. It returns false if there is none before
// until.
func (w *world) step(until clock.Time) bool {
	next := clock.Never
	for _, n := range w.nodes {
		next = clock.Min(next, max(n.next, n.asleep))
	}
	if len(w.air) > 0 {
		next = clock.Min(next, w.air[0].at)
	}
	if next > until {
		w.now = until
		return false
	}
	w.now = max(w.now, next)
	for len(w.air) > 0 && w.air[0].at <= w.now {
		f := heap.Pop(&w.air).(*flying)
		f.to.arrive(f)
	}
	for _, n := range w.nodes {
		if max(n.next, n.asleep) <= w.now {
			n.poll()
		}
	}
	return true
}

// arrive puts a frame into n's socket buffer, if it has room, as the kernel counts it.
func (n *node) arrive(f *flying) {
	if n.dead {
		return
	}
	size := len(f.frame) + limits.FrameCost
	if socket := n.w.weather.socket; socket > 0 && n.held+size > socket {
		n.w.overflowed++
		return
	}
	n.held += size
	n.inbox = append(n.inbox, f)
	n.next = n.w.now
}

// run lets d of virtual time pass.
func (w *world) run(d time.Duration) {
	for until := w.now.Add(d); w.step(until); {
	}
}

// runUntil lets time pass until done returns true, and fails the test if that takes longer than
// d.
func (w *world) runUntil(d time.Duration, what string, done func() bool) {
	w.t.Helper()
	until := w.now.Add(d)
	for !done() {
		if !w.step(until) {
			w.t.Fatalf("%s: not within %v of virtual time", what, d)
		}
	}
}

// wake makes the next step poll n: its owner has called it.
func (n *node) wake() { n.next = n.w.now }

// frag writes a short message with the given payload for e; false if there was no room.
func (n *node) frag(e *Endpoint, s wire.Space, payload string) bool {
	b := e.Reserve(n.w.now, s, wire.FragLen+len(payload))
	n.wake()
	if b == nil {
		return false
	}
	wire.PutFrag(b, &wire.Envelope{}, len(payload))
	copy(b[wire.FragLen:], payload)
	return true
}

// chunks makes a fragment of n bytes whose contents show where each byte belongs.
func chunks(id wire.FragmentID, n int) *Fragment {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ int(id))
	}
	f := &Fragment{Space: wire.Data, Type: wire.TypeChunk, ID: id, Length: uint64(n), Limit: uint64(n), HeaderLen: wire.ChunkLen}
	f.Parts = [][]byte{data[:n/3], data[n/3 : n/3], data[n/3:]}
	wire.PutChunk(f.HeaderBuf[:], 0, id, 0, 0)
	return f
}

// check fails the test if the counts of any module contradict each other, or if it leaks.
func (w *world) check() {
	w.t.Helper()
	for i, n := range w.nodes {
		if n.dead {
			continue
		}
		err := n.m.Stats().Check()
		for _, e := range n.m.endpoints {
			if e.live != nil {
				err = errors.Join(err, e.live.auditPath())
			}
		}
		if err != nil {
			w.t.Errorf("node %d: %v", i+1, err)
		}
	}
}

// quiet fails the test unless nothing is in flight or queued anywhere.
func (w *world) quiet() {
	w.t.Helper()
	w.check()
	for i, n := range w.nodes {
		if n.dead {
			continue
		}
		m := n.m
		if m.hotel.Guests() != 0 || m.resends.n != 0 || len(m.sending) != 0 {
			w.t.Errorf("node %d: %d guests, %d resends, %d with sends are left", i+1, m.hotel.Guests(), m.resends.n, len(m.sending))
		}
		for _, e := range m.endpoints {
			for s, c := range e.channels {
				if c.spent() != 0 || c.queue.n != 0 {
					w.t.Errorf("node %d: %v channel has %d in flight, %d queued, %d segments", i+1, wire.Space(s), c.inFlight, c.queued, c.queue.n)
				}
			}
			if len(e.fragments) > 0 {
				w.t.Errorf("node %d: a fragment is left", i+1)
			}
		}
	}
}

var errStranger = errors.New("not admitted")

func payload(i, n int) string {
	b := make([]byte, max(n, 4))
	binary.LittleEndian.PutUint32(b, uint32(i))
	for j := 4; j < len(b); j++ {
		b[j] = byte(i + j)
	}
	return string(b)
}
