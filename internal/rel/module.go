package rel

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/freelist"
	"github.com/weftnet/weft/internal/hotel"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/wire"
)

// Reasons for Handler.Down, and errors of Open. Callers test them with errors.Is.
var (
	ErrUnreachable = errors.New("rel: peer NIC is unreachable")
	ErrRestarted   = errors.New("rel: peer NIC has restarted")
	ErrSessionLost = errors.New("rel: peer NIC has dropped the session")
	ErrGoodbye     = errors.New("rel: NIC has said goodbye")
	ErrVersion     = errors.New("rel: peer NIC speaks no version spoken here")
	ErrOverrun     = errors.New("rel: peer NIC acknowledges nothing and keeps asking")
	ErrRefused     = errors.New("rel: peer NIC is not admitted")
	ErrOutdated    = errors.New("rel: peer NIC had a larger incarnation before")
	ErrForgotten   = errors.New("rel: peer NIC was removed from the configuration")
	ErrPeers       = errors.New("rel: too many peer NICs")
	ErrAddress     = errors.New("rel: peer NIC is up at another address")
	ErrDisplaced   = errors.New("rel: another NIC is at the address of the peer NIC")
)

// OtherNICError is an ErrRefused: another NIC than the peer has answered at the peer's address.
type OtherNICError struct{ NIC uint64 }

// Error implements error.
func (e *OtherNICError) Error() string {
	return fmt.Sprintf("%v: NIC %v is where it was", ErrRefused, nicid.ID(e.NIC))
}

// Unwrap makes the error an ErrRefused.
func (e *OtherNICError) Unwrap() error { return ErrRefused }

// Frames takes a Module's frames; a link.Driver is one.
type Frames interface {
	MTU() int                         // largest frame in bytes
	Reserve(to netip.AddrPort) []byte // room for one frame, nil if the driver is full for now
	Commit(n int)                     // makes its first n bytes a frame
}

// Flusher is Frames that leave when Flush is called.
type Flusher interface {
	Frames
	Flush(now clock.Time)
}

// Config describes a Module, whose behaviour follows from it and from the calls made.
type Config struct {
	NIC         uint64         // this NIC's id, not 0
	Incarnation uint64         // larger in every life of the NIC
	Secrets     *secret.Source // draws indices, cookies and first sequence numbers; required

	MTU             int    // of the link, in bytes
	Tagged          bool   // frames carry tags: the link is not Checked
	Reliable        bool   // the link is Reliable and Ordered: committed means acknowledged
	ReceiveCapacity uint64 // bytes of frames in flight to this NIC; 0 = limits.ReceiveCapacity

	UnreachableAfter, AckDelay, ProbeEvery time.Duration // 0 = default of limits

	// Functions of the link beyond Frames, as in link.Caps; nil if the link lacks them.
	Post       func(now clock.Time, frame []byte)
	PostLone   func(now clock.Time, to netip.AddrPort, head *[6]uint64, body []byte) bool
	ReserveRun func(to netip.AddrPort, size, n int) []byte
	CommitRun  func(n int)
	Copy       func(to, from []byte) // copies payload into a frame, if its tag does not
	Reached    func() netip.Addr     // both or neither: see source.go
	From       func(ip netip.Addr)

	// DoubtBatches is called, once in a session, if more than a quarter of the first rounds was
	// lost. If the driver sends frames in batches, perhaps batches do not get through.
	DoubtBatches func(to netip.AddrPort)

	Security *Security // nil: the link is plain

	Narrow bool // paths may carry less than MTU, so lengths are probed (pathmtu.go)

	MaxPeers int           // 0 = limits.Peers
	Rooms    int           // segments that may await acknowledgement; 0 = limits.Rooms
	Faults   Faults        // hooks for tests; nil = off
	Defect   mutate.Defect // for the simulator's own test
}

// Handler is told what happens. Its methods are called from within Receive, Progress and the
// Endpoint's methods and may call back into the Module and its Endpoints, except for Receive,
// Progress and Close.
type Handler interface {
	// Admit returns nil if this NIC may open a pair with us from that address; the error is only
	// counted.
	Admit(now clock.Time, nic uint64, from netip.AddrPort) error

	// Outdated reports that a NIC without a session has sent or answered a Hello as an earlier
	// life than that of its last session. It is not let in.
	Outdated(now clock.Time, nic uint64, from netip.AddrPort)

	// Vouch returns nil if a NIC at from that has proved a static key is to be believed its id.
	// It is called when a session opens, and again when its keys change: the error, if any, ends
	// it.
	Vouch(now clock.Time, nic uint64, from netip.AddrPort, key trust.PublicKey, certificate []byte) error

	// Stranger reports that frames that do not belong to this fabric, or to this kind of link,
	// came from an address of a known peer: ErrFabric, ErrPlain or ErrSealed. Those from other
	// addresses are only counted, or strangers could fill the log.
	Stranger(now clock.Time, from netip.AddrPort, why error)

	// Deliver hands over one record, exactly once, in order of arrival. It is valid during the
	// call. It is never a Void.
	Deliver(now clock.Time, e *Endpoint, r wire.Record)

	// Datagram hands over a datagram that the peer has sent to a service; payload is valid
	// during the call.
	Datagram(now clock.Time, e *Endpoint, service uint8, payload []byte)

	// Acknowledged reports that n bytes from offset on, a piece of a fragment that Slides, will
	// not be sent again. Pieces may be acknowledged out of order.
	Acknowledged(f *Fragment, offset, n uint64)

	// Released reports that f's memory is no longer needed. Every piece is acknowledged, or
	// confirmed if f asks for that (f.Err is nil); or the owner withdrew f; or the peer is down
	// (f.Err is the reason).
	Released(now clock.Time, f *Fragment)

	// Writable reports that a Reserve or Post that was refused may now succeed. It follows Up as
	// well.
	Writable(now clock.Time, e *Endpoint)

	// Up reports that a session with e is open.
	Up(now clock.Time, e *Endpoint)

	// Down reports that the session, or the attempt at one, is over, and why. Its fragments were
	// Released before.
	Down(now clock.Time, e *Endpoint, why error)
}

// LossHandler is a Handler that is told, before Down, of each unacknowledged record of Reserve
// or Control: its writer was told long ago that it is in flight (decision 6). Fragments are
// Released with an error instead.
type LossHandler interface {
	Lost(e *Endpoint, r wire.Record)
}

// Module is the reliability layer of one NIC. It has no lock: a single goroutine uses it and its
// endpoints, or the caller holds a lock around every call (USNIC-57…60).
type Module struct {
	cfg       Config
	handler   Handler
	placer    Placer // nil if the handler is none
	bare      bare
	security  *security // nil: plain
	latest    *session  // the open session of the last frame; nil if there is none
	sessions  sessionTable
	endpoints []*Endpoint // in order of opening
	byNIC     map[uint64]*Endpoint
	byAddr    map[netip.AddrPort]*Endpoint
	strangers map[uint64]*Endpoint // NICs that sent a Hello and have no session yet
	pending   []*session           // half-open sessions that peers began, oldest first
	refusals  []refusal
	hellos    packets // Hellos, to all peers
	refusing  packets // the refusal that is being sent

	hotel   *hotel.Hotel[*segment]  // retransmit timers; a run has one room
	lodged  int                     // packets with such timers: in the hotel or about to return
	reserve int                     // how many of cfg.Rooms are for control and retransmissions
	desk    *hotel.Hotel[*session]  // ACK and tail timers
	night   *hotel.Hotel[*Endpoint] // session timers

	pool     segmentPool
	resends  segmentList // segments to retransmit
	sending  []*Endpoint // endpoints_with_sends
	homeless []*Endpoint // endpoints that wait for rooms in the hotel
	held     []*Endpoint // endpoints that their pace holds back
	noticed  []*Endpoint // endpoints that are newly watched
	owing    []*Endpoint // endpoints that owe a frame without sequence
	spare    []*Endpoint // memory that the two lists use in turn
	finished []*Fragment // acknowledged whole; their owners are to be told
	changes  changes     // endpoints that have changed

	// Resends that were looked at since one arrived or left, or since heldUntil; all had to
	// wait.
	heldInRow int
	// When the first held endpoint, or resend, may go on; Never if none is held back.
	heldUntil clock.Time

	assemblies []*assembly // segments of which some parts have arrived, oldest first
	parts      []byte      // holds a segment that is sent in parts

	waiting       []waitingDatagram
	datagramID    uint32     // of the last datagram sent, to any peer
	joinings      []*joining // datagrams of which some pieces have arrived, oldest first
	spareJoinings freelist.List[joining]
	staged        int // datagrams whose frames wait for a Flush

	deferred deferred
	row      row
	begun    begun

	work       int        // of this Progress
	choked     bool       // the driver took no more in this Progress
	progressed clock.Time // when the last Progress was
	closed     bool

	ackIn, ackOut wire.Ack   // too large to make for each frame
	heads         wire.Heads // of the run that is being written; too large as well
	scratch       []byte     // takes the control records of a peer that is cut off

	stats Stats
	none  PeerStats // of peers that have had no session
}

// New returns a module for the NIC that cfg describes. h is told what happens.
func New(cfg Config, h Handler) *Module {
	cfg.ReceiveCapacity = cmp.Or(cfg.ReceiveCapacity, limits.ReceiveCapacity)
	cfg.UnreachableAfter = cmp.Or(cfg.UnreachableAfter, limits.UnreachableAfter)
	cfg.AckDelay = cmp.Or(cfg.AckDelay, limits.AckDelay)
	// Several tries must fit into an UnreachableAfter that is shorter than the default.
	cfg.ProbeEvery = cmp.Or(cfg.ProbeEvery, min(limits.ProbeEvery, cfg.UnreachableAfter/8))
	cfg.MaxPeers = cmp.Or(cfg.MaxPeers, limits.Peers)
	cfg.Rooms = cmp.Or(cfg.Rooms, limits.Rooms)
	m := &Module{
		cfg: cfg, handler: h,
		byNIC: map[uint64]*Endpoint{}, byAddr: map[netip.AddrPort]*Endpoint{}, strangers: map[uint64]*Endpoint{},
		hotel: hotel.New[*segment](HotelShift, cfg.Rooms), reserve: cfg.Rooms / limits.RoomReserve,
		heldUntil: clock.Never,
		desk:      hotel.New[*session](deskShift, cfg.MaxPeers),
		night:     hotel.New[*Endpoint](nightShift, cfg.MaxPeers),
	}
	m.placer, _ = h.(Placer)
	if m.cfg.Copy == nil {
		m.cfg.Copy = func(to, from []byte) { copy(to, from) }
	}
	m.bare.copies = m.cfg.Copy
	m.security = newSecurity(m, cfg.Security)
	m.hellos.start(m, 0)
	return m
}

// channelMTU returns the largest frame of a channel, by this NIC's link.
func (m *Module) channelMTU(s wire.Space) int {
	if s == wire.Command {
		return min(m.cfg.MTU, limits.CommandMTU)
	}
	return m.cfg.MTU
}

func (m *Module) newEndpoint(nic uint64, addr netip.AddrPort) *Endpoint {
	return &Endpoint{m: m, nic: nic, addr: addr, tag: m.hellos.tag}
}

// Open returns the endpoint of a peer NIC and makes it if there is none. Id 0 means that the id
// is not known before the peer sends a Hello. No frame is sent yet. A known NIC that is not up
// moves to the new address. Errors: ErrPeers, ErrAddress.
func (m *Module) Open(nic uint64, addr netip.AddrPort) (*Endpoint, error) {
	e := m.byNIC[nic]
	if nic == 0 {
		e = m.byAddr[addr]
	} else if a := m.byAddr[addr]; e == nil && a != nil && a.nic == 0 {
		e, a.nic = a, nic
		a.MarkChanged()
		m.byNIC[nic] = a
	}
	if e == nil {
		if e = m.strangers[nic]; e == nil {
			if m.full() && !m.dropStranger() {
				return nil, fmt.Errorf("open NIC %v at %v: %w: %d", nicid.ID(nic), addr, ErrPeers, m.cfg.MaxPeers)
			}
			e = m.newEndpoint(nic, addr)
		}
		m.know(e)
	}
	if e.addr == addr {
		return e, nil
	}
	if e.live != nil {
		return nil, fmt.Errorf("open NIC %v at %v: %w: %v", nicid.ID(nic), addr, ErrAddress, e.addr)
	}
	m.move(e, addr)
	return e, nil
}

// move notes that a peer is at another address.
func (m *Module) move(e *Endpoint, addr netip.AddrPort) {
	if m.byAddr[e.addr] == e {
		delete(m.byAddr, e.addr)
	}
	e.addr, e.local = addr, netip.Addr{}
	e.MarkChanged()
	m.byAddr[addr] = e
	if n := e.next; n != nil && !n.bound {
		n.addr = addr
	} else if n != nil {
		m.setAside(e) // at the address where it was answered
	}
}

// Move changes the address at which the peer is sought, at once if an attempt is running. If a
// session is open, Move does nothing.
func (e *Endpoint) Move(now clock.Time, addr netip.AddrPort) {
	if e.live != nil || e.addr == addr {
		return
	}
	e.m.move(e, addr)
	if e.attempt.wanted {
		e.hello(now)
	}
}

// Endpoint returns the endpoint of a peer NIC, nil if it is not known.
func (m *Module) Endpoint(nic uint64) *Endpoint { return m.byNIC[nic] }

// Endpoints returns all endpoints, in the order in which they were opened. The slice is the
// module's.
func (m *Module) Endpoints() []*Endpoint { return m.endpoints }

// InFlight returns how many segments are in the hotel: posted, and neither acknowledged nor
// given up for lost.
func (m *Module) InFlight() int { return m.lodged }

// vacancies returns how many more may go there.
func (m *Module) vacancies() int { return m.cfg.Rooms - m.lodged }

// Forget removes a peer. Its fragments are Released and it goes Down with ErrForgotten if it was
// up or an attempt was running. The Endpoint must not be used afterwards.
func (m *Module) Forget(now clock.Time, e *Endpoint) {
	m.settle()
	if e.live != nil || e.attempt.wanted {
		m.ends(now, e, ErrForgotten)
	}
	e.attempt.stop()
	if e.next != nil {
		m.drop(e.next)
	}
	m.dropPending(e)
	if e.room != 0 {
		m.night.CheckOut(e.room)
		e.room = 0
	}
	e.duties, e.watch = 0, 0
	if m.byNIC[e.nic] == e {
		delete(m.byNIC, e.nic)
	}
	if m.byAddr[e.addr] == e {
		delete(m.byAddr, e.addr)
	}
	if i := slices.Index(m.endpoints, e); i >= 0 {
		m.endpoints = slices.Delete(m.endpoints, i, i+1)
	}
	m.changes.remove(e)
	e.known = false
}

// Close says Goodbye to every peer that is up; no session opens afterwards. Active fragments are
// Released with ErrGoodbye.
func (m *Module) Close(now clock.Time, out Frames) {
	m.settle()
	m.closed = true
	for _, e := range slices.Clone(m.endpoints) {
		s := e.live
		if s == nil && !e.attempt.wanted {
			continue
		}
		if s != nil {
			if b := s.frame(out); b != nil && m.finishes(s, out) {
				b = s.frame(out)
				out.Commit(s.packets.seal(wire.KindGoodbye, b, wire.OuterLen, nil))
			}
		}
		m.ends(now, e, ErrGoodbye)
	}
	for _, e := range m.endpoints {
		if e.next != nil {
			m.drop(e.next)
		}
	}
	for len(m.pending) > 0 {
		m.drop(m.pending[0])
	}
}
