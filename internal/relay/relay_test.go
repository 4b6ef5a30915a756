package relay

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// engine is a NIC that knows one other.
type engine struct {
	*Table
	peer      *Peer
	buffers   int // in use
	delivered []string
	over      []bool // for each finished relay: whether a receiver was missed
}

// owner is the idle owner of an engine's module.
type owner struct{ rel.Handler }

func (owner) Admit(clock.Time, uint64, netip.AddrPort) error { return nil }
func (owner) Up(clock.Time, *rel.Endpoint)                   {}
func (owner) Writable(clock.Time, *rel.Endpoint)             {}

// cable holds the frames that a module has sent.
type cable struct {
	buf    [1472]byte
	frames [][]byte
}

func (c *cable) MTU() int                      { return len(c.buf) }
func (c *cable) Reserve(netip.AddrPort) []byte { return c.buf[:] }
func (c *cable) Commit(n int)                  { c.frames = append(c.frames, bytes.Clone(c.buf[:n])) }
func (c *cable) Flush(clock.Time)              {}

func address(nic uint64) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(nic)}), 1)
}

// newEngine makes a NIC that knows another.
func newEngine(t *testing.T, id, other uint64) (*engine, *rel.Module) {
	e := &engine{}
	m := rel.New(rel.Config{NIC: id, Incarnation: 1, Secrets: secret.Seeded(id), MTU: 1472, Tagged: true, UnreachableAfter: time.Second, ProbeEvery: time.Second}, owner{})
	ep, err := m.Open(other, address(other))
	if err != nil {
		t.Fatal(err)
	}
	e.peer = &Peer{Endpoint: ep}
	e.Table = New(id, mutate.None, make([]uint64, len(vni.Names())), e)
	return e, m
}

// pair makes NICs 1 and 2, which have a session.
func pair(t *testing.T) (one, two *engine) {
	one, m1 := newEngine(t, 1, 2)
	two, m2 := newEngine(t, 2, 1)
	one.peer.Connect(1)
	for now := clock.Time(1); !one.peer.Up() || !two.peer.Up(); now = now.Add(time.Millisecond) {
		if now > clock.Time(time.Second) {
			t.Fatal("no session opens")
		}
		var c1, c2 cable
		m1.Progress(now, &c1)
		for _, f := range c1.frames {
			m2.Receive(now, address(1), f)
		}
		m2.Progress(now, &c2)
		for _, f := range c2.frames {
			m1.Receive(now, address(2), f)
		}
	}
	return one, two
}

func (e *engine) Now() clock.Time { return 1 }

func (e *engine) Peer(nic uint64) *Peer {
	if nic == e.peer.NIC() {
		return e.peer
	}
	return nil
}

func (e *engine) Deliver(_ *wire.RelayHead, to wire.RelayReceiver, message []byte) bool {
	e.delivered = append(e.delivered, string(message))
	return to.Slot == 3
}

func (e *engine) Over(_ any, r *Relay) {
	for i := range r.nics[len(r.nics)-1].first {
		e.over = append(e.over, r.Missed(i))
	}
}

func (e *engine) LegEnded(any) {}

func (e *engine) TakeBuffer(n int) []byte { e.buffers++; return make([]byte, n) }
func (e *engine) GiveBuffer(b []byte)     { e.buffers-- }

// body returns a relay of a message of this NIC to the process at slot 3 of each NIC, with MACs.
func (e *engine) body(message string, nics ...uint64) []byte {
	b := make([]byte, wire.RelayHeadLen, 1000)
	head := wire.RelayHead{NIC: e.id, Gen: 1, Slot: 5, NICs: uint16(len(nics)), Token: 1, Tag: 2}
	head.Put(b)
	for _, nic := range nics {
		n, v := wire.RelayNIC{NIC: nic, Session: e.peer.Session(), Receivers: 1}, wire.RelayReceiver{Gen: 1, Number: 1, Slot: 3}
		b = b[:len(b)+entryLen]
		n.Put(b[len(b)-entryLen:])
		v.Put(b[len(b)-wire.RelayReceiverLen:])
	}
	b = append(b, message...)
	e.Sign(b)
	return b
}

// entryLen is the length of a NIC with one receiver in a body.
const entryLen = wire.RelayNICLen + wire.RelayReceiverLen

// takes passes a body to the NIC as one record, and returns what its processes receive of it.
func (e *engine) takes(body []byte) []string {
	e.delivered = nil
	rec := make([]byte, wire.RelayLen+len(body))
	wire.PutRelay(rec, 9, 0, uint32(len(body)), len(body))
	copy(rec[wire.RelayLen:], body)
	e.Record(e.peer, rec)
	return e.delivered
}

func TestWhoCannotBeReachedHasBeenMissed(t *testing.T) {
	e, _ := newEngine(t, 1, 2)
	r, unsent := e.Start(append(e.TakeBuffer(0), e.body("all", 2, 3, 4)...), "source")
	if unsent || !e.Quiet() {
		t.Error("there is a leg to a NIC with which no session is open")
	}
	e.Begun(r)
	if len(e.over) != 3 || !e.over[0] || !e.over[1] || !e.over[2] {
		t.Errorf("the relay has missed %v; expected all three", e.over)
	}
	e.clean(t)
}

func TestARelayInPiecesIsDeliveredWhenItIsWhole(t *testing.T) {
	e, source := pair(t)
	b := source.body("in pieces", 1, 3)
	piece := func(id uint32, from, to, length int) {
		rec := make([]byte, wire.RelayLen+to-from)
		wire.PutRelay(rec, id, uint32(from), uint32(length), to-from)
		copy(rec[wire.RelayLen:], b[from:to])
		e.Record(e.peer, rec)
	}
	piece(9, 40, len(b), len(b))
	piece(9, 0, 40, len(b)-1) // of another length: not accepted
	if len(e.delivered) != 0 || e.counts[vni.DropFormat] != 1 || e.peer.Leaks() == nil {
		t.Fatalf("%q delivered, %d records dropped, %v", e.delivered, e.counts[vni.DropFormat], e.peer.Leaks())
	}
	piece(9, 0, 40, len(b))
	if len(e.delivered) != 1 || e.delivered[0] != "in pieces" {
		t.Errorf("%q delivered", e.delivered)
	}
	piece(10, 0, 40, limits.RelayBody+1)
	// more than a peer may have arriving
	for id := uint32(11); id < 11+limits.RelayBytes/limits.RelayOverhead; id++ {
		piece(id, 0, 1, 1000)
	}
	if err := e.peer.Audit(); err != nil || e.counts[vni.DropFormat] < 3 {
		t.Errorf("%v; %d records dropped", err, e.counts[vni.DropFormat])
	}
	e.Down(e.peer)
	e.clean(t)
}

// clean checks that everything has been returned.
func (e *engine) clean(t *testing.T) {
	t.Helper()
	if e.buffers != 0 || e.Leaks() != nil || e.peer.Leaks() != nil {
		t.Errorf("%d buffers in use; %v; %v", e.buffers, e.Leaks(), e.peer.Leaks())
	}
}
