package relay

import (
	"net/netip"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// engine is NIC 1, which knows NIC 2 and never comes to open a pair with it.
type engine struct {
	*Table
	peer      *Peer
	buffers   int // in use
	delivered []string
	over      []bool // of the relay that is over: what it has missed
}

func newEngine(t *testing.T) *engine {
	e := &engine{}
	ep, err := rel.New(rel.Config{NIC: 1, Incarnation: 1, MTU: 1472, UnreachableAfter: time.Second, ProbeEvery: time.Second},
		struct{ rel.Handler }{}).Open(2, netip.MustParseAddrPort("10.0.0.2:1"))
	if err != nil {
		t.Fatal(err)
	}
	e.peer = &Peer{Endpoint: ep}
	e.Table = New(1, make([]uint64, len(vni.Names())), e)
	return e
}

func (e *engine) Now() clock.Time { return 1 }

func (e *engine) Peer(nic uint64) *Peer {
	if nic == 2 {
		return e.peer
	}
	return nil
}

func (e *engine) Deliver(_ *wire.RelayHead, session uint32, to wire.RelayReceiver, message []byte) bool {
	e.delivered = append(e.delivered, string(message))
	return session == 7 && to.Slot == 3
}

func (e *engine) Over(_ any, r *Relay) {
	for i := range r.nics[len(r.nics)-1].first {
		e.over = append(e.over, r.Missed(i))
	}
}

func (e *engine) LegEnded(any) {}

func (e *engine) TakeBuffer(n int) []byte { e.buffers++; return make([]byte, n) }
func (e *engine) GiveBuffer(b []byte)     { e.buffers-- }

// body is a relay of a message to the process at slot 3 of each NIC.
func body(message string, nics ...uint64) []byte {
	b := make([]byte, wire.RelayHeadLen, 1000)
	head := wire.RelayHead{NIC: 1, Gen: 1, Slot: 5, NICs: uint16(len(nics)), Token: 1, Tag: 2}
	head.Put(b)
	for _, nic := range nics {
		n, v := wire.RelayNIC{NIC: nic, Session: 7, Receivers: 1}, wire.RelayReceiver{Gen: 1, Number: 1, Slot: 3}
		b = b[:len(b)+wire.RelayNICLen+wire.RelayReceiverLen]
		n.Put(b[len(b)-wire.RelayNICLen-wire.RelayReceiverLen:])
		v.Put(b[len(b)-wire.RelayReceiverLen:])
	}
	return append(b, message...)
}

func TestWhoCannotBeReachedHasBeenMissed(t *testing.T) {
	e := newEngine(t)
	r, unsent := e.Start(append(e.TakeBuffer(0), body("all", 2, 3, 4)...), "source")
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
	e := newEngine(t)
	b := body("in pieces", 1, 3)
	piece := func(id uint32, from, to, length int) {
		rec := make([]byte, wire.RelayLen+to-from)
		wire.PutRelay(rec, id, uint32(from), uint32(length), to-from)
		copy(rec[wire.RelayLen:], b[from:to])
		e.Record(e.peer, rec)
	}
	piece(9, 40, len(b), len(b))
	piece(9, 0, 40, len(b)-1) // of another length: not taken
	if len(e.delivered) != 0 || e.counts[vni.DropFormat] != 1 || e.peer.Leaks() == nil {
		t.Fatalf("%q delivered, %d records dropped, %v", e.delivered, e.counts[vni.DropFormat], e.peer.Leaks())
	}
	piece(9, 0, 40, len(b))
	if len(e.delivered) != 1 || e.delivered[0] != "in pieces" {
		t.Errorf("%q delivered", e.delivered)
	}
	piece(10, 0, 40, limits.RelayBody+1)
	for id := uint32(11); id < 11+limits.RelayBytes/limits.RelayOverhead; id++ { // more than a peer may have coming
		piece(id, 0, 1, 1000)
	}
	if err := e.peer.Audit(); err != nil || e.counts[vni.DropFormat] < 3 {
		t.Errorf("%v; %d records dropped", err, e.counts[vni.DropFormat])
	}
	e.Down(e.peer)
	e.clean(t)
}

// clean looks whether everything has been given back.
func (e *engine) clean(t *testing.T) {
	t.Helper()
	if e.buffers != 0 || e.Leaks() != nil || e.peer.Leaks() != nil {
		t.Errorf("%d buffers in use; %v; %v", e.buffers, e.Leaks(), e.peer.Leaks())
	}
}
