// Package relay passes a message for processes of several NICs down a tree of those NICs. It is a
// service of the engine (internal/nic), which chooses the messages for relays, and delivers the
// messages that arrive. Each NIC passes the message on by itself. The processes in between are
// not involved, so a stopped process delays nothing.
//
//	source             first half's NIC                its first half …
//	  │── Relay ──────────►│── Relay ─────────────────────►│   list of NICs, receivers and
//	  │── Relay ──────► second half's NIC …                │   message numbers; the message
//	  │                    │◄──────────────────── Relayed ─│   all below have it, but for these
//	  │◄───────── Relayed ─│
//
// The list is halved at every step, so the source sends the message log2 of the NICs times, and
// no path is longer. Each hop uses rel, so nothing is lost on it while both NICs live. A failure
// costs no message, be it an unreachable NIC or one that dies. The source keeps the bytes until
// all have answered. It sends the message itself, with its number, to the receivers that a
// Relayed names, and to those below a lost NIC. A receiver that has got the message after all
// knows the number (decision 5). So a relay need not be certain of anything.
//
// A message number has a meaning within a session of source and receiver, which the NICs in
// between do not see. So the list names the session. A NIC with another session, or none, does
// not accept the message from a third party.
//
// A NIC in between may be hostile. The source writes a MAC for each NIC (mac.go). If a NIC's MAC
// is wrong, its receivers are missed, and the source sends them the message itself.
package relay

import (
	"crypto/sha256"
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/freelist"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/nicid"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Engine is what relays need of the engine.
type Engine interface {
	Now() clock.Time
	Peer(nic uint64) *Peer // nil: no such NIC is known

	// Deliver gives a message of the open session with its source to a process of this NIC. It
	// reports whether the process has the message, or had it already.
	Deliver(head *wire.RelayHead, to wire.RelayReceiver, message []byte) bool
	Over(source any, r *Relay) // every NIC below has answered
	LegEnded(source any)       // one of them has answered, for which the relay may have waited

	TakeBuffer(n int) []byte // from transit memory
	GiveBuffer(b []byte)     // nil is ignored
}

// Peer is another NIC in the view of relays. It is part of the engine's entry for the NIC.
type Peer struct {
	*rel.Endpoint

	legs       []*leg // legs to it that it has not answered
	blocked    []*leg // those of them that wait until it accepts more
	cost       int    // of the unanswered legs
	assemblies map[uint32]assembly
	assembling int // cost of the assemblies
	keyed      keyed
}

// assembly is a relay that arrives in pieces.
type assembly struct {
	body []byte
	got  int
}

// Relay is one message on its way.
type Relay struct {
	parent  *Peer  // waits for the answer; nil at the source
	session uint32 // of the parent; id belongs to it
	id      uint32 // the parent's id for the relay
	source  any    // the engine's, while something there waits for the outcome
	head    wire.RelayHead
	body    []byte // head, list and message, until all legs have carried it
	kept    bool   // body is transit memory, not a frame
	message int    // its offset in the body
	nics    []place
	legs    []*leg // those that have not answered
	begun   bool   // no more legs will begin
	missed  [wire.MaxMissed]uint64
}

// place is the offset of a NIC in the body, and the index of its first receiver. The last one
// marks the end.
type place struct {
	nic   uint64
	at    int
	first int
}

// Table holds the relays that pass through this NIC.
type Table struct {
	// Alter, if not nil, changes the data that this NIC passes on for others: a piece of a body,
	// from offset on. It turns a simulated NIC into a hostile relay.
	Alter func(piece []byte, offset int)

	nic      Engine
	id       uint64
	defect   mutate.Defect
	counts   []uint64        // the engine's, by vni.Counter
	legs     map[uint32]*leg // by id
	last     uint32          // last id
	underWay int             // number of relays
	relays   []*Relay        // free for reuse
	spare    freelist.List[leg]
	macs     authenticator
}

// New returns an empty table for the NIC with an id.
func New(id uint64, defect mutate.Defect, counts []uint64, nic Engine) *Table {
	return &Table{
		nic: nic, id: id, defect: defect, counts: counts, legs: make(map[uint32]*leg),
		macs: authenticator{hash: sha256.New()},
	}
}

// cost returns what a relay counts for in the bound of relays between two NICs.
func cost(length int) int { return length + limits.RelayOverhead }

// Record handles a relay, or a piece of one.
func (t *Table) Record(pr *Peer, rec wire.Record) {
	id, offset, length := rec.Relay()
	piece := rec.Payload()
	if len(piece) == int(length) {
		t.take(pr, id, piece, false)
		return
	}
	a, begun := pr.assemblies[id]
	if !begun {
		// No honest peer sends such a relay.
		if int(length) > limits.RelayBody || pr.assembling+cost(int(length)) > limits.RelayBytes {
			t.counts[vni.DropFormat]++
			t.answer(pr, id, nil)
			return
		}
		a.body = t.nic.TakeBuffer(int(length))
		// If pieces overlap, the bytes of an earlier relay must not show.
		clear(a.body)
		if pr.assemblies == nil {
			pr.assemblies = make(map[uint32]assembly)
		}
		pr.assemblies[id] = a
		pr.assembling += cost(len(a.body))
	}
	if len(a.body) != int(length) || a.got+len(piece) > len(a.body) {
		t.counts[vni.DropFormat]++
		return
	}
	copy(a.body[offset:], piece)
	if a.got += len(piece); a.got < len(a.body) {
		pr.assemblies[id] = a
		return
	}
	delete(pr.assemblies, id)
	pr.assembling -= cost(len(a.body))
	t.take(pr, id, a.body, true)
}

// take delivers a relay to the processes here and passes it on.
func (t *Table) take(pr *Peer, id uint32, body []byte, kept bool) {
	r := t.newRelay(body, kept)
	if !r.parse() || r.nics[0].nic != t.id {
		t.counts[vni.DropFormat]++
		t.answer(pr, id, nil)
		t.free(r)
		return
	}
	r.parent, r.session, r.id = pr, pr.Session(), id
	t.beginLegs(r, 1)
	t.deliver(r)
	if !r.kept && r.unsent() {
		r.body, r.kept = t.nic.TakeBuffer(len(body)), true
		copy(r.body, body)
	}
	t.Begun(r)
}

func (t *Table) newRelay(body []byte, kept bool) *Relay {
	if len(t.relays) == 0 {
		t.relays = append(t.relays, new(Relay))
	}
	last := len(t.relays) - 1
	r := t.relays[last]
	t.relays = t.relays[:last]
	t.underWay++
	*r = Relay{body: body, kept: kept, nics: r.nics[:0], legs: r.legs[:0]}
	return r
}

func (t *Table) free(r *Relay) {
	t.dropBody(r)
	r.parent, r.source = nil, nil
	t.relays = append(t.relays, r)
	t.underWay--
}

// dropBody returns the buffer that is no longer needed.
func (t *Table) dropBody(r *Relay) {
	if r.kept {
		t.nic.GiveBuffer(r.body)
	}
	r.body, r.kept = nil, false
}

// parse reads the list of a body.
func (r *Relay) parse() bool {
	head, rest, err := wire.ParseRelayHead(r.body)
	if err != nil {
		return false
	}
	r.head = head
	receivers := 0
	for range head.NICs {
		n, _, after, err := wire.ParseRelayNIC(rest)
		if err != nil {
			return false
		}
		r.nics = append(r.nics, place{n.NIC, len(r.body) - len(rest), receivers})
		receivers += int(n.Receivers)
		rest = after
	}
	r.message = len(r.body) - len(rest)
	r.nics = append(r.nics, place{0, r.message, receivers})
	return receivers <= limits.MulticastReceivers && len(rest) <= limits.StagedMessage
}

// deliver gives the message to its receivers on this NIC.
func (t *Table) deliver(r *Relay) {
	n, receivers, _, _ := wire.ParseRelayNIC(r.body[r.nics[0].at:]) // parse has accepted it
	if !t.genuine(r, &n, receivers) {
		r.miss(0, int(n.Receivers))
		return
	}
	for i := range int(n.Receivers) {
		to := wire.ParseRelayReceiver(receivers[i*wire.RelayReceiverLen:])
		if !t.nic.Deliver(&r.head, to, r.body[r.message:]) {
			r.miss(i, i+1)
		}
	}
}

// miss notes that some receivers, by their indexes in the list, have not been reached.
func (r *Relay) miss(from, to int) {
	for i := from; i < to; i++ {
		r.missed[i/64] |= 1 << (i % 64)
	}
}

// Missed reports whether the receiver with an index in the list has not been reached.
func (r *Relay) Missed(i int) bool { return r.missed[i/64]&(1<<(i%64)) != 0 }

// answer tells a parent which receivers its relay has not reached: all, if missed is nil.
func (t *Table) answer(pr *Peer, id uint32, missed []uint64) {
	flags := uint8(0)
	if missed == nil {
		flags = wire.FlagNone
	}
	if b := pr.Control(t.nic.Now(), wire.RelayedLen+8*len(missed)); b != nil {
		wire.PutRelayed(b, flags, id, missed)
	}
}

// Quiet reports whether no other NIC owes this one an answer.
func (t *Table) Quiet() bool { return len(t.legs) == 0 }

// Leaks returns an error if relays are left. There may be none when no process has a message in
// flight.
func (t *Table) Leaks() error {
	if t.underWay == 0 && len(t.legs) == 0 {
		return nil
	}
	return fmt.Errorf("%d relays, %d legs of them", t.underWay, len(t.legs))
}

// Audit returns an error if a peer exceeds a limit.
func (pr *Peer) Audit() error {
	if max(pr.cost, pr.assembling) > limits.RelayBytes || min(pr.cost, pr.assembling) < 0 {
		return fmt.Errorf("peer %v has relays for %d bytes to answer and %d coming, at most %d",
			nicid.ID(pr.NIC()), pr.cost, pr.assembling, limits.RelayBytes)
	}
	return nil
}

// Leaks returns an error if relays are left between this NIC and a peer.
func (pr *Peer) Leaks() error {
	if pr.cost == 0 && pr.assembling == 0 && len(pr.legs) == 0 {
		return nil
	}
	return fmt.Errorf("peer %v: relays for %d bytes out, %d in, %d to be answered",
		nicid.ID(pr.NIC()), pr.cost, pr.assembling, len(pr.legs))
}
