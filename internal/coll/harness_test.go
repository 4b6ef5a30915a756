package coll

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// engine is an engine with a group table and nothing else. It knows peers, but never opens a pair
// with them: signals to them stay in the table's queue.
type engine struct {
	testing.TB
	*Table
	peers   map[uint64]*Peer
	rel     *rel.Module
	buffers int // transit memory in use
	counts  []uint64
	told    *[][]byte // the Table records told from now on; nil: none is sent
}

// request is a command of a process.
type request struct {
	memory []byte
	done   bool
	c      vni.Completion
}

func (r *request) Read(to []byte, from uint64) { copy(to, r.memory[from:]) }
func (r *request) Write(at uint64, b []byte)   { copy(r.memory[at:], b) }

// newEngine returns NIC 1, which knows NIC 2 and the following ones.
func newEngine(t testing.TB, peers int) *engine {
	e := &engine{TB: t, peers: map[uint64]*Peer{}, counts: make([]uint64, len(vni.Names()))}
	e.rel = rel.New(rel.Config{NIC: 1, Incarnation: 1, Secrets: secret.Seeded(1), MTU: 1472, UnreachableAfter: time.Second, ProbeEvery: time.Second}, struct{ rel.Handler }{})
	for i := range peers {
		id := uint64(i + 2)
		ep, err := e.rel.Open(id, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(id)}), 1))
		if err != nil {
			t.Fatal(err)
		}
		e.peers[id] = &Peer{Endpoint: ep}
	}
	e.Table = New(Config{NIC: 1, MTU: 1472, Counts: e.counts}, e)
	return e
}

func (e *engine) Now() clock.Time              { return 1 }
func (e *engine) Peer(nic uint64) *Peer        { return e.peers[nic] }
func (e *engine) Expect(vni.Name, vni.Address) {}
func (e *engine) Record(_ *rel.Endpoint, n int) []byte {
	if e.told == nil {
		return nil
	}
	b := make([]byte, n)
	*e.told = append(*e.told, b)
	return b
}
func (e *engine) Complete(r Request, c vni.Completion) {
	q := r.(*request)
	if q.done {
		e.Fatal("a command is completed twice")
	}
	q.done, q.c = true, c
}
func (e *engine) Reject(r Request, c vni.Completion, _ error) { e.Complete(r, c) }
func (e *engine) TakeBuffer(n int) []byte {
	if n == 0 {
		return nil
	}
	e.buffers++
	return make([]byte, n)
}
func (e *engine) GiveBuffer(b []byte) {
	if b != nil {
		e.buffers--
	}
}

// wantIdle checks that no state of an operation is left, and that no peer is probed for one.
func (e *engine) wantIdle() {
	e.Helper()
	if err := e.Leaks(); err != nil || e.buffers != 0 || e.Audit() != nil {
		e.Errorf("%v; %d buffers in use; %v", err, e.buffers, e.Audit())
	}
	for _, pr := range e.peers {
		if watched(pr) {
			e.Errorf("NIC %d is still probed, though nothing is under way to it", pr.NIC())
		}
	}
}

// watched reports whether something waits for a peer: only then may a wait end.
func watched(pr *Peer) (yes bool) {
	defer func() {
		_ = recover()
		pr.Watch(1)
	}()
	pr.Watch(-1)
	return true
}

var teamKey = func() (n vni.Name) {
	copy(n.App[:], "team")
	return n
}()

// process makes a process of this NIC.
func process(i int) *Process {
	p := &Process{Address: vni.Address{NIC: 1, Slot: uint16(i + 1), Gen: 7}, Name: vni.Name{Index: uint32(i)}}
	copy(p.Name.App[:], "m")
	return p
}

// team is a group, some of whose members are processes of this NIC. The others are on the peers,
// one each.
type team struct {
	*engine
	local   []*Process
	numbers []uint32
}

// newTeam joins some processes of this NIC, and as many peers tell joins of theirs. The peers'
// processes have the higher ranks.
func newTeam(e *engine, local, remote int) *team {
	g := &team{engine: e}
	size := uint32(local + remote)
	for i := range local {
		g.local = append(g.local, process(i))
		e.Command(g.local[i], &request{memory: make([]byte, size*vni.RosterBytes)}, vni.Command{Code: vni.CodeJoinGroup, Size: size}, &vni.SendContext{Receiver: teamKey})
		g.numbers = append(g.numbers, g.local[i].members[0].own.number)
	}
	for i := range remote {
		pr := e.peers[uint64(i+2)]
		e.News(pr, news(wire.TableJoin, pr.news.heard+1, fmt.Sprint("p", i), 1, 1, size))
	}
	e.Run()
	return g
}

func (g *team) member(i int) *member { return g.members[g.numbers[i]] }

// start begins an operation of a member.
func (g *team) start(i int, code vni.Code, tag uint64, memory []byte) *request {
	r := &request{memory: memory}
	g.Command(g.local[i], r, vni.Command{Code: code, Group: g.numbers[i], Size: uint32(len(g.member(i).g.seats))}, &vni.SendContext{Tag: tag, Len: uint64(len(memory))})
	return r
}

// each begins an operation of every member of this NIC, which must end well for all.
func (g *team) each(code vni.Code, tag uint64, memory func(i int) []byte) {
	g.Helper()
	var l []*request
	for i := range g.local {
		l = append(l, g.start(i, code, tag, memory(i)))
	}
	g.Run()
	for i, r := range l {
		if !r.done || r.c.Status != vni.StatusOK {
			g.Fatalf("member %d: ended %v, %v", i, r.done, r.c.Status)
		}
	}
}

// news is a peer's record about one of its processes.
func news(op byte, change uint32, name string, slot uint16, number, size uint32) []byte {
	b := make([]byte, seatLen)
	s := seat{Address: vni.Address{Slot: slot, Gen: 7}, number: number, size: size, piece: 1400}
	copy(s.name.App[:], name)
	putSeat(b, op, &s, teamKey, 0)
	binary.LittleEndian.PutUint32(b[80:], change)
	return b
}
