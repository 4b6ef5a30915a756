package coll

import (
	"errors"
	"math/rand/v2"
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

// world is some group tables whose sessions rel carries over a switch, on virtual time.
type world struct {
	t    *testing.T
	now  clock.Time
	nics []*place
	rand *rand.Rand
	lose int // percentage of lost frames
}

// place is a NIC of a world. It is the table's engine.
type place struct {
	*Table
	w       *world
	port    *mem.Port
	rel     *rel.Module
	peers   map[uint64]*Peer
	byEP    map[*rel.Endpoint]*Peer
	buffers int // transit memory in use
	counts  []uint64
	cut     bool // no frame reaches it or leaves it
	names   []vni.Name
}

// actor is a process of a world that has joined a group, or wants to.
type actor struct {
	*Process
	at     *place
	number uint32
	rank   int
	size   int
	join   *request
}

func newWorld(t *testing.T, nics int) *world {
	w := &world{t: t, now: clock.Time(time.Hour), rand: rand.New(rand.NewPCG(1, uint64(nics)))}
	sw := mem.NewSwitch(mem.Config{MTU: 1472})
	for i := range nics {
		id := uint64(i + 1)
		p := &place{w: w, port: sw.Port(), peers: make(map[uint64]*Peer), byEP: make(map[*rel.Endpoint]*Peer), counts: make([]uint64, len(vni.Names()))}
		p.Table = New(Config{NIC: id, MTU: 1472, Counts: p.counts}, p)
		p.rel = rel.New(rel.Config{NIC: id, Incarnation: 1, Secrets: secret.Seeded(id), MTU: 1472, Tagged: true, ReceiveCapacity: uint64(limits.ReceiveCapacityBytes)}, fromRel{p})
		w.nics = append(w.nics, p)
	}
	for i, p := range w.nics {
		for k, other := range w.nics {
			if i == k {
				continue
			}
			ep, err := p.rel.Open(uint64(k+1), other.port.Addr())
			if err != nil {
				t.Fatal(err)
			}
			p.peers[uint64(k+1)] = &Peer{Endpoint: ep}
			p.byEP[ep] = p.peers[uint64(k+1)]
			ep.Connect(w.now)
		}
	}
	w.until("all sessions are open", func() bool {
		return !slices.ContainsFunc(w.nics, func(p *place) bool { return len(p.up) != nics-1 })
	})
	return w
}

func (w *world) step() {
	next := w.now.Add(time.Millisecond)
	for _, p := range w.nics {
		frames, _ := p.port.Poll(w.now, listens{p})
		p.Run()
		work, at := p.rel.Progress(w.now, p.port)
		if frames+work > 0 || p.Unfinished() {
			at = w.now
		}
		next = clock.Min(next, at)
		if err := p.Audit(); err != nil {
			w.t.Fatal(err)
		}
	}
	w.now = max(next, w.now.Add(time.Microsecond))
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for end := w.now.Add(30 * time.Second); !ok(); w.step() {
		if w.now > end {
			w.t.Fatalf("%s: not within 30 s of virtual time", what)
		}
	}
}

func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); w.now < end; {
		w.step()
	}
}

// ended waits until requests have ended.
func (w *world) ended(what string, all ...*request) {
	w.t.Helper()
	w.until(what, func() bool { return !slices.ContainsFunc(all, func(r *request) bool { return !r.done }) })
}

// process makes a process with an index at a NIC. Names are in the order of the indexes.
func (w *world) process(nic, index int) *actor {
	p := process(index)
	p.Address.NIC = uint64(nic + 1)
	return &actor{Process: p, at: w.nics[nic]}
}

// joins begins the join of a group by a process. number is that of the group that it shrinks, or
// whose part it joins.
func (a *actor) joins(key vni.Name, size int, number uint32) *request {
	a.join = &request{memory: make([]byte, 32*vni.RosterBytes)}
	a.at.Command(a.Process, a.join, vni.Command{Code: vni.CodeJoinGroup, Group: number, Size: uint32(size)}, &vni.SendContext{Receiver: key})
	return a.join
}

// joined notes the result of a completed join.
func (a *actor) joined() {
	a.number, a.rank, a.size = a.join.c.Gen, int(a.join.c.Tag>>32), int(uint32(a.join.c.Tag))
}

// group makes processes and joins them to a group. The process with index i is at NIC of[i].
func (w *world) group(key vni.Name, of ...int) (all []*actor) {
	w.t.Helper()
	var joins []*request
	for i, nic := range of {
		all = append(all, w.process(nic, i))
		joins = append(joins, all[i].joins(key, len(of), 0))
	}
	w.ended("the group is joined", joins...)
	for _, a := range all {
		if a.joined(); a.join.c.Status != vni.StatusOK {
			w.t.Fatalf("rank %d has joined with %v", a.rank, a.join.c.Status)
		}
	}
	return all
}

// does begins an operation of a process.
func (a *actor) does(code vni.Code, tag uint64, memory []byte) *request {
	r := &request{memory: memory}
	a.at.Command(a.Process, r, vni.Command{Code: code, Group: a.number, Size: uint32(a.size)}, &vni.SendContext{Tag: tag, Len: uint64(len(memory))})
	return r
}

// wantIdle checks that no NIC keeps state of an operation, and that none is probed for one.
func (w *world) wantIdle(when string) {
	w.t.Helper()
	for i, p := range w.nics {
		if err := errors.Join(p.Leaks(), p.Audit()); err != nil || p.buffers != 0 || !p.Quiet() {
			w.t.Errorf("%s: NIC %d: %v; %d buffers in use", when, i+1, err, p.buffers)
		}
		for nic, pr := range p.peers {
			if watched(pr) || len(pr.signals) != 0 || len(pr.blocked) != 0 {
				w.t.Errorf("%s: NIC %d probes NIC %d: %v; %d signals and %d legs wait", when, i+1, nic, watched(pr), len(pr.signals), len(pr.blocked))
			}
		}
	}
}

// leave ends every process, and checks that no state of them is left.
func (w *world) leave(all []*actor) {
	w.t.Helper()
	for _, a := range all {
		a.at.Gone(a.Process)
	}
	w.run(5 * time.Second)
	w.wantIdle("when all have gone")
	for i, p := range w.nics {
		if len(p.members) != 0 || !p.cut && p.Len() != 0 {
			w.t.Errorf("NIC %d still has %d members, and knows %d groups", i+1, len(p.members), p.Len())
		}
	}
}

func (p *place) Now() clock.Time                   { return p.w.now }
func (p *place) Peer(nic uint64) *Peer             { return p.peers[nic] }
func (p *place) Expect(n vni.Name, at vni.Address) { p.names = append(p.names, n) }
func (p *place) Record(to *rel.Endpoint, n int) []byte {
	b := to.Control(p.w.now, wire.RecordLen+n)
	if b == nil {
		return nil
	}
	wire.PutTable(b, n)
	clear(b[wire.RecordLen:])
	return b[wire.RecordLen:]
}

func (p *place) Complete(r Request, c vni.Completion) {
	q := r.(*request)
	if q.done {
		p.w.t.Fatal("a command is completed twice")
	}
	q.done, q.c = true, c
}

func (p *place) Reject(r Request, c vni.Completion, _ error) { p.Complete(r, c) }

func (p *place) TakeBuffer(n int) []byte {
	if n == 0 {
		return nil
	}
	p.buffers++
	return slices.Repeat([]byte{0xee}, n)
}

func (p *place) GiveBuffer(b []byte) {
	if b == nil {
		return
	}
	p.buffers--
	for i := range b { // later reads return wrong data
		b[i] = 0xdd
	}
}

// listens is a NIC's rel behind the losses of the world.
type listens struct{ p *place }

func (l listens) Receive(now clock.Time, from netip.AddrPort, frame []byte) {
	w := l.p.w
	from1 := slices.IndexFunc(w.nics, func(p *place) bool { return p.port.Addr() == from })
	if l.p.cut || w.nics[from1].cut || w.lose > 0 && w.rand.IntN(100) < w.lose {
		return
	}
	l.p.rel.Receive(now, from, frame)
}

func (l listens) ReceiveRun(now clock.Time, from netip.AddrPort, frames []byte, size int) {
	link.Each(l, now, from, frames, size)
}

// fromRel handles the events of rel.
type fromRel struct{ p *place }

func (h fromRel) Admit(clock.Time, uint64, netip.AddrPort) error                          { return nil }
func (h fromRel) Vouch(clock.Time, uint64, netip.AddrPort, trust.PublicKey, []byte) error { return nil }
func (h fromRel) Stranger(clock.Time, netip.AddrPort, error)                              {}
func (h fromRel) Outdated(clock.Time, uint64, netip.AddrPort)                             {}
func (h fromRel) Acknowledged(*rel.Fragment, uint64, uint64)                              {}
func (h fromRel) Released(clock.Time, *rel.Fragment)                                      {}
func (h fromRel) Datagram(clock.Time, *rel.Endpoint, uint8, []byte)                       {}
func (h fromRel) Writable(_ clock.Time, ep *rel.Endpoint)                                 { h.p.Writable(h.p.byEP[ep]) }
func (h fromRel) Up(_ clock.Time, ep *rel.Endpoint)                                       { h.p.Table.Up(h.p.byEP[ep]) }

func (h fromRel) Down(_ clock.Time, ep *rel.Endpoint, why error) {
	h.p.Down(h.p.byEP[ep], errors.Is(why, rel.ErrGoodbye))
}

func (h fromRel) Deliver(_ clock.Time, ep *rel.Endpoint, r wire.Record) {
	pr := h.p.byEP[ep]
	switch r.Type() {
	case wire.TypeTable:
		h.p.News(pr, slices.Clone(r.Payload()))
	case wire.TypeSignal:
		h.p.Signal(pr, r.Signal())
	case wire.TypePiece:
		h.p.Piece(pr, r.Piece(), r.Payload())
	}
}
