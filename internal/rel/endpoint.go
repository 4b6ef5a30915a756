package rel

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// Endpoint is a Module's end of the connection with one peer NIC. It lives as long as the Module
// and has one session after another.
type Endpoint struct {
	Owner any // for the owner's use

	m    *Module
	nic  uint64 // 0 until known
	addr netip.AddrPort

	// The address of this host at which the peer at addr has reached us last; invalid if
	// unknown.
	local netip.Addr
	// The address from which frames of its last session came that were dropped; invalid if there
	// is none.
	elsewhere netip.AddrPort

	incarnation uint64 // of the last session that opened; earlier ones are over
	helloSeen   uint64 // packet counter of the Hello that opened it

	live      *session // open, nil if none is
	next      *session // half open, at addr, announced by the Hellos of an attempt; nil if none is
	answering *session // half open; its Hello is to be answered; nil if there is none

	channels   [wire.Spaces]channel
	congestion congestion
	pace       pace
	fragments  []*Fragment // posted and not Released
	ids        fragmentIDs

	listed   bool // on the module's list of endpoints with something to send
	held     bool // on the module's list of endpoints that their pace holds back
	homeless bool // on the module's list of endpoints that wait for rooms
	noticed  bool // on the module's list of endpoints that are newly watched
	blocked  bool // a Reserve or Post was refused
	mute     bool // the peer said goodbye, so its late frames do not ask for a session
	overrun  bool // its control backlog is full; to be cut off
	known    bool // in the module's table of peers; strangers enter it when their session opens

	attempt attempt
	calls   int // bytes of frames of no session, which may cause an attempt

	duties  duty
	owed    uint8 // number of replies owed
	tag     uint8 // bytes of the tag on every frame
	changed bool  // on the module's list of endpoints that have changed
	// ProbeReplies owed: to the three probes of a try, or two of a check, and to a keepalive.
	replies  [4]wire.Probe
	check    check
	room     int32 // of the session timer, in the night hotel
	watch    int32
	heard    clock.Time // when the last frame of its session arrived
	attended clock.Time // since then its silence counts, unless it has been heard since
	probedAt clock.Time
	timerAt  clock.Time // when the session timer goes off

	key         trust.PublicKey // static: proved by the session, or given by the configuration
	certificate []byte
	keyKnown    bool
	proved      bool

	stats       *PeerStats // nil before the first session
	nextChanged *Endpoint  // on the module's list
}

// NIC returns the peer's id, 0 as long as it is unknown.
func (e *Endpoint) NIC() uint64 { return e.nic }

// Addr returns the peer's address.
func (e *Endpoint) Addr() netip.AddrPort { return e.addr }

// Incarnation returns the peer's incarnation in its last session with us; 0 before the first.
func (e *Endpoint) Incarnation() uint64 { return e.incarnation }

// Up reports whether a session is open.
func (e *Endpoint) Up() bool { return e.live != nil }

// RTT returns the smoothed round-trip time to the peer, 0 if it is not known.
func (e *Endpoint) RTT() time.Duration {
	if e.live == nil {
		return 0
	}
	return e.live.rtt.smooth
}

// Capacity returns how many bytes of frames may be in flight to the peer's NIC, from all senders
// together, as the peer announced; 0 without a session.
func (e *Endpoint) Capacity() uint64 {
	if e.live == nil {
		return 0
	}
	return e.live.peer.ReceiveCapacity
}

// MaxRecord returns the longest record, in bytes, that a segment of s takes in one frame. It
// changes with the knowledge of the path.
func (e *Endpoint) MaxRecord(s wire.Space) int {
	mtu := e.m.channelMTU(s)
	if e.live != nil {
		mtu = e.channels[s].mtu
	}
	return min(mtu-e.overhead(), wire.MaxRecord)
}

// tagLen returns how many bytes of a frame are its tag.
func (e *Endpoint) tagLen() int { return int(e.tag) }

// overhead returns how many bytes of a data frame are not records.
func (e *Endpoint) overhead() int { return dataHead + e.tagLen() }

// mostRecord returns the longest record, in bytes, that a segment of s takes at all.
func (e *Endpoint) mostRecord(s wire.Space) int {
	mtu := e.m.channelMTU(s)
	if e.live != nil {
		mtu = e.channels[s].most
	}
	return min(mtu-e.overhead(), wire.MaxRecord)
}

// opened reports whether a session is open. If none is, it begins an attempt at one.
func (e *Endpoint) opened(now clock.Time) bool {
	if e.live != nil {
		e.attend(now)
		return true
	}
	e.blocked = true
	e.Connect(now)
	return false
}

// Reserve returns room for one record of n bytes, at most MaxRecord(s), which the caller writes
// at once. A longer record, up to the limit of both NICs, goes in parts. The record leaves with
// the next Progress, in one segment with the records before it if they fit (USNIC-22, USNIC-26),
// and is kept until it is acknowledged. Reserve returns nil if the session is not open (then it
// is being opened), the window is full or the credits are spent; Writable will follow.
func (e *Endpoint) Reserve(now clock.Time, s wire.Space, n int) []byte {
	if n > e.mostRecord(s) {
		panic(fmt.Sprintf("rel: a record of %d bytes does not fit a %v segment of %d", n, s, e.mostRecord(s)))
	}
	if !e.opened(now) {
		return nil
	}
	return e.reserve(s, n)
}

// reserve is Reserve in an open session.
func (e *Endpoint) reserve(s wire.Space, n int) []byte {
	if b := e.coalesce(s, n); b != nil {
		return b
	}
	if !e.ready(s, n) {
		e.refuse(s)
		return nil
	}
	return e.newSegment(s, n)
}

// Control is Reserve in the command space for records that must not be refused: it returns nil
// only if the session is not open. If Reserve would refuse, the record waits in a backlog of at
// most limits.ControlBacklog segments. A peer that keeps to the protocol cannot fill it, because
// its records ask for a bounded number of answers. A peer that does is cut off with ErrOverrun
// at the next Progress.
func (e *Endpoint) Control(now clock.Time, n int) []byte {
	if n > e.mostRecord(wire.Command) {
		panic(fmt.Sprintf("rel: a control record of %d bytes does not fit a segment of %d",
			n, e.mostRecord(wire.Command)))
	}
	if e.live == nil {
		return nil
	}
	e.attend(now)
	b := e.coalesce(wire.Command, n)
	if b == nil {
		if e.channels[wire.Command].queue.n >= limits.ControlBacklog {
			return e.overflow(n)
		}
		b = e.newSegment(wire.Command, n)
	}
	e.channels[wire.Command].open.control = true
	return b
}

// Notice is Control for a record that may be left out: it also returns nil if half of the
// backlog is in use.
func (e *Endpoint) Notice(now clock.Time, n int) []byte {
	if e.channels[wire.Command].queue.n >= limits.ControlBacklog/2 {
		return nil
	}
	return e.Control(now, n)
}

// overflow makes the next Progress cut the endpoint off, and returns memory that is never read.
func (e *Endpoint) overflow(n int) []byte {
	e.overrun = true
	e.toSend()
	if cap(e.m.scratch) < n {
		e.m.scratch = make([]byte, n)
	}
	return e.m.scratch[:n]
}

// Room returns for how many bytes, at least n, Reserve has room in one segment of s, in one
// frame: the rest of the open one, or all of a new one.
func (e *Endpoint) Room(s wire.Space, n int) int {
	c := &e.channels[s]
	if g := c.open; g != nil && e.live != nil {
		if rest := c.mtu - e.overhead() - len(g.buf); rest >= n {
			return rest
		}
	}
	return e.MaxRecord(s)
}

// coalesce returns room for n bytes in the open segment of s, nil if there is none or it is too
// full.
func (e *Endpoint) coalesce(s wire.Space, n int) []byte {
	c := &e.channels[s]
	g, most := c.open, c.mtu-e.overhead()
	if g == nil || len(g.buf)+n > most {
		return nil
	}
	g.cost += n
	c.queued += n
	return e.m.pool.grow(g, n, most)
}

// newSegment queues a segment that begins with a record of n bytes, and is open for more.
func (e *Endpoint) newSegment(s wire.Space, n int) []byte {
	c := &e.channels[s]
	g := e.m.pool.get(e, s, 1)
	g.buf = e.m.pool.buffer(n)[:n]
	c.enqueue(g, n)
	c.open = g
	e.toSend()
	return g.buf[:n:n]
}

// Heard returns when the last frame of the peer's session arrived. While this module is not
// polled, time does not count as silence.
func (e *Endpoint) Heard() clock.Time { return e.heard }

// Watch adds n, +1 or −1, to the number of operations that wait for this peer without anything
// in flight to it: a named receive, a request that awaits permission. While there are any, the
// peer is probed when it is silent. Without a session, the next Progress begins an attempt at
// one.
func (e *Endpoint) Watch(n int) {
	e.watch += int32(n)
	if e.watch < 0 {
		panic("rel: Watch fell below zero")
	}
	if n > 0 && !e.noticed {
		e.noticed = true
		e.m.noticed = append(e.m.noticed, e)
	}
}

// Watching is one operation's wait for a peer, or for none (decision 7). The zero value waits
// for none.
type Watching struct{ peer *Endpoint }

// On waits for e instead of the peer before; nil is none.
func (w *Watching) On(e *Endpoint) {
	if w.peer == e {
		return
	}
	if w.Off(); e != nil {
		w.peer = e
		e.Watch(1)
	}
}

// Off waits for none.
func (w *Watching) Off() {
	if w.peer != nil {
		w.peer.Watch(-1)
		w.peer = nil
	}
}

// Of reports whether it waits for that peer.
func (w *Watching) Of(e *Endpoint) bool { return w.peer == e }

// writable tells the owner, once, that a refused request may be tried again.
func (e *Endpoint) writable(now clock.Time) {
	if e.blocked && e.live != nil && (e.ready(wire.Command, 0) || e.ready(wire.Data, 0)) {
		e.blocked = false
		e.m.handler.Writable(now, e)
	}
}
