package program

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/vm"
)

// two is two NICs whose sessions rel carries over a switch, on virtual time. Their ids are ownNIC
// and ownNIC+1.
type two struct {
	t    *testing.T
	now  clock.Time
	nics [2]*linkedNIC
	cut  bool // frames are lost
}

// linkedNIC is a NIC of two. It is the table's engine.
type linkedNIC struct {
	*nicTest
	*lone
	both  *two
	port  *mem.Port
	rel   *rel.Module
	peer  *Peer // nil: there is none yet
	taken int   // buffers of transit memory in use
	idle  bool  // it handles no messages
	deaf  bool  // its processes accept no messages
	ends  int   // sessions that have ended
}

// process is a command of a process with its message.
type process struct{ message []byte }

func (p *process) Read(to []byte, from uint64) { copy(to, p.message[from:]) }

// newTwo returns two NICs that know each other. No session is open yet.
func newTwo(t *testing.T) *two {
	f := &two{t: t, now: clock.Time(time.Hour)}
	sw := mem.NewSwitch(mem.Config{MTU: 1472})
	for i := range f.nics {
		id := uint64(ownNIC + i)
		n := &linkedNIC{nicTest: newNIC(t), both: f, port: sw.Port()}
		n.lone = n.engine
		n.Table = New(Config{NIC: id, Counts: n.counts}, n)
		n.rel = rel.New(rel.Config{NIC: id, Incarnation: 1, Secrets: secret.Seeded(id), MTU: n.port.MTU(), Tagged: true,
			ReceiveCapacity: uint64(limits.ReceiveCapacityBytes)}, onRel{n})
		f.nics[i] = n
	}
	for i, n := range f.nics {
		ep, err := n.rel.Open(uint64(ownNIC+1-i), f.nics[1-i].port.Addr())
		if err != nil {
			t.Fatal(err)
		}
		n.peer = &Peer{Endpoint: ep}
	}
	return f
}

// newOpen is newTwo with an open session.
func newOpen(t *testing.T) (f *two, a, b *linkedNIC) {
	f = newTwo(t)
	a, b = f.nics[0], f.nics[1]
	f.connect()
	return f, a, b
}

func (f *two) connect() {
	f.t.Helper()
	f.nics[0].peer.Connect(f.now)
	f.until("the session is open", func() bool { return f.nics[0].peer.Up() && f.nics[1].peer.Up() })
}

func (f *two) step() {
	next := f.now.Add(time.Millisecond)
	for _, n := range f.nics {
		frames, _ := n.port.Poll(f.now, hearing{n})
		if !n.idle {
			n.Run(0)
		}
		work, at := n.rel.Progress(f.now, n.port)
		if frames+work > 0 {
			at = f.now
		}
		next = clock.Min(next, at)
		if err := errors.Join(n.Audit(), n.peer.Audit()); err != nil {
			f.t.Fatal(err)
		}
	}
	f.now = max(next, f.now.Add(time.Microsecond))
}

func (f *two) until(what string, ok func() bool) {
	f.t.Helper()
	for end := f.now.Add(20 * time.Second); !ok(); f.step() {
		if f.now > end {
			f.t.Fatalf("%s: not within 20 s of virtual time", what)
		}
	}
}

func (f *two) run(d time.Duration) {
	for end := f.now.Add(d); f.now < end; {
		f.step()
	}
}

// wantNothingLeft checks that neither NIC keeps anything of a message, and that both agree on the
// free room.
func (f *two) wantNothingLeft(when string) {
	f.t.Helper()
	for i, n := range f.nics {
		if err := errors.Join(n.Leaks(), n.peer.Leaks()); err != nil || n.taken != 0 || n.Unsent() {
			f.t.Errorf("%s: NIC %d: %v; %d buffers are in use; unsent: %v", when, n.cfg.NIC, err, n.taken, n.Unsent())
		}
		taken, _ := n.Room(f.nics[1-i].cfg.NIC)
		if _, owed := f.nics[1-i].Room(n.cfg.NIC); taken != owed || n.peer.used != n.peer.owed {
			f.t.Errorf("%s: NIC %d has taken %d bytes of the window, and the other owes %d", when, n.cfg.NIC, taken, owed)
		}
		unwatched(f.t, n.peer)
		n.peer.Watch(1) // undoes unwatched
	}
}

func (n *linkedNIC) Now() clock.Time   { return n.both.now }
func (n *linkedNIC) Clock() clock.Time { return n.both.now }

func (n *linkedNIC) Peer(nic uint64) *Peer {
	if n.peer != nil && n.peer.NIC() == nic {
		return n.peer
	}
	return nil
}

func (n *linkedNIC) Peers(yield func(*Peer) bool) {
	if n.peer != nil {
		yield(n.peer)
	}
}

func (n *linkedNIC) Announce(to *Peer, size int) []byte {
	b := to.Control(n.both.now, wire.RecordLen+size)
	if b == nil {
		return nil
	}
	wire.PutTable(b, size)
	clear(b[wire.RecordLen:])
	return b[wire.RecordLen:]
}

func (n *linkedNIC) TakeBuffer(size int) []byte {
	n.taken++
	return slices.Repeat([]byte{0xee}, size)
}

func (n *linkedNIC) GiveBuffer(b []byte) {
	n.taken--
	for i := range b { // later reads return wrong data
		b[i] = 0xdd
	}
}

func (n *linkedNIC) Deliver(_ vm.ID, m Arrival) bool {
	if m.Payload = slices.Clone(m.Payload); !n.deaf {
		n.given = append(n.given, m)
	}
	return !n.deaf
}

// hearing is a NIC's rel behind the cut.
type hearing struct{ n *linkedNIC }

func (h hearing) Receive(now clock.Time, from netip.AddrPort, frame []byte) {
	if !h.n.both.cut {
		h.n.rel.Receive(now, from, frame)
	}
}

func (h hearing) ReceiveRun(now clock.Time, from netip.AddrPort, frames []byte, size int) {
	link.Each(h, now, from, frames, size)
}

// onRel handles the events of rel.
type onRel struct{ n *linkedNIC }

func (h onRel) Admit(clock.Time, uint64, netip.AddrPort) error                          { return nil }
func (h onRel) Vouch(clock.Time, uint64, netip.AddrPort, trust.PublicKey, []byte) error { return nil }
func (h onRel) Stranger(clock.Time, netip.AddrPort, error)                              {}
func (h onRel) Outdated(clock.Time, uint64, netip.AddrPort)                             {}
func (h onRel) Acknowledged(*rel.Fragment, uint64, uint64)                              {}
func (h onRel) Released(clock.Time, *rel.Fragment)                                      {}
func (h onRel) Writable(clock.Time, *rel.Endpoint)                                      { h.n.Writable(h.n.peer) }
func (h onRel) Up(clock.Time, *rel.Endpoint)                                            { h.n.Table.Up(h.n.peer) }

func (h onRel) Down(clock.Time, *rel.Endpoint, error) {
	h.n.ends++
	h.n.Down(h.n.peer, vni.StatusUnreachable)
}

func (h onRel) Datagram(_ clock.Time, ep *rel.Endpoint, _ uint8, payload []byte) {
	h.n.Datagram(ep.NIC(), payload)
}

func (h onRel) Deliver(_ clock.Time, _ *rel.Endpoint, r wire.Record) {
	switch r.Type() {
	case wire.TypeProgram:
		h.n.Record(h.n.peer, r)
	case wire.TypeHandled:
		h.n.Handled(h.n.peer, r)
	case wire.TypeTable:
		if b := r.Payload(); !h.n.Take(h.n.peer, b) {
			h.n.t.Errorf("NIC %d does not know what % x is", h.n.cfg.NIC, b)
		}
	}
}

// at returns the destination of a program of the other NIC.
func (n *linkedNIC) at(program vm.ID) vm.Destination {
	return vm.Destination{NIC: n.peer.NIC(), Program: program, Trigger: 1}
}
