package program

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// lone is the engine of a NIC that knows no other. Its clock stands still unless a test moves it,
// or sets a step for each reading.
type lone struct {
	now    clock.Time
	step   time.Duration
	guards map[vni.Name]GuardFunc
	ways   map[vni.Name]OutgoingFunc
	users  map[vni.Name]string // of the existing processes
	ended  map[Request]vni.Status
	told   map[Request]vm.Outcome
	given  []Arrival  // to processes
	bare   []vni.Name // processes that have lost their guard

	process vni.Name // the process that programs send to; zero: one without a guard
}

func (e *lone) Now() clock.Time                  { return e.now }
func (e *lone) Clock() clock.Time                { e.now = e.now.Add(e.step); return e.now }
func (e *lone) Peer(uint64) *Peer                { return nil }
func (e *lone) Peers(func(*Peer) bool)           {}
func (e *lone) Announce(*Peer, int) []byte       { return nil }
func (e *lone) CheckAt(clock.Time)               {}
func (e *lone) Answered(r Request, o vm.Outcome) { e.told[r] = o }
func (e *lone) Ended(r Request, s vni.Status)    { e.ended[r] = s }
func (e *lone) Rang(uint32)                      {}
func (e *lone) TakeBuffer(n int) []byte          { return make([]byte, n) }
func (e *lone) GiveBuffer([]byte)                {}

func (e *lone) UserOf(name vni.Name) (user string, there bool) {
	user, there = e.users[name]
	return user, there
}

func (e *lone) Guard(name vni.Name, f GuardFunc, _ Whose) {
	if e.guards[name] = f; f == nil {
		e.bare = append(e.bare, name)
	}
}

func (e *lone) GuardOutgoing(name vni.Name, f OutgoingFunc, _ Whose) { e.ways[name] = f }

func (e *lone) Deliver(_ vm.ID, m Arrival) bool {
	if f := e.guards[e.process]; f != nil && f(m.NIC, m.Payload) {
		return true
	}
	e.given = append(e.given, m)
	return true
}

// A nicTest is a table with its engine.
type nicTest struct {
	*Table
	t      testing.TB
	engine *lone
	counts []uint64
}

const ownNIC = 7

func newNIC(t testing.TB) *nicTest {
	e := &lone{guards: make(map[vni.Name]GuardFunc), ways: make(map[vni.Name]OutgoingFunc), ended: make(map[Request]vni.Status), told: make(map[Request]vm.Outcome)}
	counts := make([]uint64, len(vni.Names()))
	return &nicTest{Table: New(Config{NIC: ownNIC, Counts: counts}, e), t: t, engine: e, counts: counts}
}

// module compiles a source.
func module(t testing.TB, source string) *prog.Module {
	t.Helper()
	m, err := pdl.Compile("test.pdl", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// put loads a source under a number and starts it.
func (n *nicTest) put(id vm.ID, source string, more ...func(*Spec)) {
	n.t.Helper()
	s := Spec{Module: module(n.t, source), ID: id, Start: true}
	for _, f := range more {
		f(&s)
	}
	if _, _, err := n.Load(s); err != nil {
		n.t.Fatal(err)
	}
}

// run polls until nothing waits, at most most times.
func (n *nicTest) run(most int) (polls int) {
	for ; n.Pending() > 0 && polls < most; polls++ {
		n.Run(0)
		if err := n.Audit(); err != nil {
			n.t.Fatal(err)
		}
	}
	return polls
}

// shown returns the values that a program has displayed.
func (n *nicTest) shown(id vm.ID) []int64 {
	n.t.Helper()
	values, _, err := n.Log(id, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	return values
}

// words returns a message of words.
func words(all ...uint64) (b []byte) {
	for _, w := range all {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}
