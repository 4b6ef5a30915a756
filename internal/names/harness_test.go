package names

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
)

// fabric is some tables on one switch, each with the rel of a NIC below it and a plain list of
// processes above, on virtual time.
type fabric struct {
	t    *testing.T
	now  clock.Time
	sw   *mem.Switch
	nics []*node
	cut  func(a, b uint64) bool // reports whether frames between two NICs are lost; nil: none are
}

// node is one NIC. It is the table's engine.
type node struct {
	Table
	f     *fabric
	id    uint64
	port  *mem.Port
	rel   *rel.Module
	byEP  map[*rel.Endpoint]*Peer
	check clock.Time
	most  int // peers that it may know; 0: any number
	procs map[uint16]*proc
	gone  []vni.Address // processes that the table reported as ended
	named map[vni.Address]int
	over  map[vni.Address]int // processes that the table reported as forgotten
	// keep reports for each record whether it arrives; a record that does not is kept. nil: all
	// arrive.
	keep func(from *Peer, op byte) bool
	kept []func()
}

// proc is a process and the result of its claim.
type proc struct {
	at     vni.Address
	name   vni.Name
	held   bool
	why    error
	lostTo vni.Address
}

func newFabric(t *testing.T, nics int) *fabric {
	f := &fabric{t: t, now: clock.Time(time.Hour), sw: mem.NewSwitch(mem.Config{MTU: 1472})}
	for id := range nics {
		f.add(uint64(id + 1))
	}
	f.until("every NIC knows every other", func() bool {
		return !slices.ContainsFunc(f.nics, func(n *node) bool {
			return len(n.peers) != nics-1 || slices.ContainsFunc(n.peers, func(p *Peer) bool { return !p.synced })
		})
	})
	return f
}

// add adds a NIC, which knows of the first.
func (f *fabric) add(id uint64) *node { return f.addAt(id, f.sw.Port()) }

// kill ends a NIC without a word to the others.
func (f *fabric) kill(n *node) {
	f.nics = slices.DeleteFunc(f.nics, func(other *node) bool { return other == n })
}

// addAt adds a NIC at a port, perhaps that of a killed NIC.
func (f *fabric) addAt(id uint64, port *mem.Port) *node { return f.addLife(id, port, 1) }

// addLife adds a NIC at a port, in the life with an incarnation.
func (f *fabric) addLife(id uint64, port *mem.Port, incarnation uint64) *node {
	n := &node{f: f, id: id, port: port, byEP: make(map[*rel.Endpoint]*Peer), check: clock.Never, procs: make(map[uint16]*proc),
		named: make(map[vni.Address]int), over: make(map[vni.Address]int)}
	secrets := secret.Seeded(id + (incarnation-1)<<32) // other ones in each life
	n.rel = rel.New(rel.Config{NIC: id, Incarnation: incarnation, Secrets: secrets, MTU: n.port.MTU(), Tagged: true,
		ReceiveCapacity:  uint64(limits.ReceiveCapacityBytes),
		UnreachableAfter: limits.UnreachableAfter, AckDelay: limits.AckDelay, ProbeEvery: limits.ProbeEvery}, handler{n})
	n.Init(Config{NIC: id, Belief: Belief{HearsayFromPeers: true}, Counts: make([]uint64, len(vni.Names())),
		UnreachableAfter: limits.UnreachableAfter, FailureTimeout: limits.FailureTimeout, ProbeEvery: limits.ProbeEvery}, n)
	f.nics = append(f.nics, n)
	if len(f.nics) > 1 {
		if err := n.AddNode(f.nics[0].id, f.nics[0].port.Addr()); err != nil {
			f.t.Fatal(err)
		}
	}
	return n
}

func (f *fabric) step() {
	next := f.now.Add(time.Millisecond)
	for _, n := range f.nics {
		if n.check <= f.now {
			n.check = clock.Never
			n.Expire()
		}
		n.Settle()
		frames, _ := n.port.Poll(f.now, ear{n})
		work, at := n.rel.Progress(f.now, n.port)
		if frames+work > 0 || n.Changed() {
			at = f.now
		}
		next = clock.Min(next, clock.Min(at, n.check))
		if err := errors.Join(n.Audit(), n.consistent()); err != nil {
			f.t.Fatalf("NIC %d: %v", n.id, err)
		}
	}
	f.now = max(next, f.now.Add(time.Microsecond))
}

func (f *fabric) until(what string, ok func() bool) {
	f.t.Helper()
	for end := f.now.Add(20 * time.Second); !ok(); f.step() {
		if f.now > end {
			f.t.Fatalf("%s: not within 20 s of virtual time", what)
		}
	}
}

func (f *fabric) run(d time.Duration) {
	for end := f.now.Add(d); f.now < end; {
		f.step()
	}
}

// claim claims a name for a process at slot.
func (n *node) claim(slot uint16, name vni.Name) *proc {
	p := &proc{at: vni.Address{NIC: n.id, Slot: slot, Gen: 1}, name: name}
	n.procs[slot] = p
	n.Claim(p.at, name, vni.Life{})
	return p
}

// claimAs is claim for a process of a rank.
func (n *node) claimAs(slot uint16, name vni.Name, life vni.Life) *proc {
	p := &proc{at: vni.Address{NIC: n.id, Slot: slot, Gen: 1}, name: name}
	n.procs[slot] = p
	n.Claim(p.at, name, life)
	return p
}

// over reports whether the claim has ended.
func (p *proc) over() bool { return p.held || p.why != nil }

// homed returns a name whose home is n.
func (n *node) homed() vni.Name {
	name := vni.Name{Index: 1}
	for copy(name.App[:], "app"); n.Home(name) != nil; name.Index++ {
	}
	return name
}

func (n *node) Now() clock.Time      { return n.f.now }
func (n *node) CheckAt(t clock.Time) { n.check = clock.Min(n.check, t) }

func (n *node) Peer(nic uint64) *Peer {
	if i := slices.IndexFunc(n.peers, func(p *Peer) bool { return p.NIC() == nic }); i >= 0 {
		return n.peers[i]
	}
	return nil
}

func (n *node) Open(nic uint64, addr netip.AddrPort) (*Peer, error) {
	if n.most > 0 && len(n.peers) >= n.most && n.Peer(nic) == nil {
		return nil, rel.ErrPeers
	}
	ep, err := n.rel.Open(nic, addr)
	return n.peer(ep), err
}

func (n *node) peer(ep *rel.Endpoint) *Peer {
	if ep != nil && n.byEP[ep] == nil {
		n.byEP[ep] = new(Peer)
		n.Add(n.byEP[ep], ep)
	}
	return n.byEP[ep]
}

func (n *node) Forget(p *Peer) {
	n.rel.Forget(n.f.now, p.Endpoint)
	delete(n.byEP, p.Endpoint)
}

func (n *node) Record(to *rel.Endpoint, size int) []byte {
	b := to.Control(n.f.now, wire.RecordLen+size)
	if b == nil {
		return nil
	}
	wire.PutTable(b, size)
	clear(b[wire.RecordLen:])
	return b[wire.RecordLen:]
}

func (n *node) Confirmed(slot uint16) {
	if n.procs[slot].over() {
		n.f.t.Errorf("the claim of slot %d of NIC %d ends a second time", slot, n.id)
	}
	n.procs[slot].held = true
}

func (n *node) Refused(slot uint16, why error) {
	if n.procs[slot].over() {
		n.f.t.Errorf("the claim of slot %d of NIC %d ends a second time: %v", slot, n.id, why)
	}
	n.procs[slot].why = why
}

func (n *node) Lost(slot uint16, to *Entry) { n.procs[slot].lostTo = to.Address }
func (n *node) Named(e *Entry)              { n.named[e.Address]++ }
func (n *node) Gone(e *Entry, _ bool)       { n.gone = append(n.gone, e.Address) }
func (n *node) Forgotten(a vni.Address)     { n.over[a]++ }

// ear is a NIC's rel behind the cuts of the fabric.
type ear struct{ n *node }

func (e ear) Receive(now clock.Time, from netip.AddrPort, frame []byte) {
	f := e.n.f
	other := slices.IndexFunc(f.nics, func(n *node) bool { return n.port.Addr() == from })
	if f.cut == nil || other < 0 || !f.cut(f.nics[other].id, e.n.id) && !f.cut(e.n.id, f.nics[other].id) {
		e.n.rel.Receive(now, from, frame)
	}
}

func (e ear) ReceiveRun(now clock.Time, from netip.AddrPort, frames []byte, size int) {
	link.Each(e, now, from, frames, size)
}

// handler handles the events of rel.
type handler struct{ n *node }

func (h handler) Admit(_ clock.Time, nic uint64, from netip.AddrPort) error {
	return h.n.Admit(nic, from)
}
func (h handler) Vouch(clock.Time, uint64, netip.AddrPort, trust.PublicKey, []byte) error { return nil }
func (h handler) Stranger(clock.Time, netip.AddrPort, error)                              {}
func (h handler) Outdated(clock.Time, uint64, netip.AddrPort)                             {}
func (h handler) Datagram(clock.Time, *rel.Endpoint, uint8, []byte)                       {}
func (h handler) Acknowledged(*rel.Fragment, uint64, uint64)                              {}
func (h handler) Released(clock.Time, *rel.Fragment)                                      {}
func (h handler) Writable(clock.Time, *rel.Endpoint)                                      {}
func (h handler) Up(_ clock.Time, ep *rel.Endpoint)                                       { h.n.Table.Up(h.n.peer(ep)) }
func (h handler) Down(_ clock.Time, ep *rel.Endpoint, why error) {
	if p := h.n.byEP[ep]; p != nil {
		h.n.Table.Down(p, errors.Is(why, rel.ErrGoodbye))
	}
}

func (h handler) Deliver(_ clock.Time, ep *rel.Endpoint, r wire.Record) {
	p, b := h.n.peer(ep), slices.Clone(r.Payload())
	take := func() {
		if !h.n.Take(p, b) {
			h.n.f.t.Errorf("NIC %d does not know what % x is", h.n.id, b)
		}
	}
	if h.n.keep != nil && !h.n.keep(p, b[0]) {
		h.n.kept = append(h.n.kept, take)
		return
	}
	take()
}

// release delivers the kept records, the last first if they are to overtake one another.
func (n *node) release(overtake bool) {
	kept := n.kept
	n.keep, n.kept = nil, nil
	if overtake {
		slices.Reverse(kept)
	}
	for _, take := range kept {
		take()
	}
}
