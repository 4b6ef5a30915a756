package coll

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// The signals.
const (
	// signalRound is for a barrier: the sender has entered the round. In operation 0 its value is
	// the sender's sum over the seats.
	signalRound = 1
	// signalOffer is for a broadcast. Its value is root<<32 | length of the data that the sender
	// has.
	signalOffer = 2
	signalGrant = 3 // broadcast: send the data
	signalFetch = 4 // broadcast, to the root: send the data again; there was no room for it
	// signalAck in a broadcast: all below the sender have it. In a reduction: the contribution
	// has been added.
	signalAck  = 5
	signalLost = 6 // value: rank of a member that has gone
	// signalMismatch: the members do not agree. Its value is the sender's sum over the seats.
	signalMismatch = 7
	signalFull     = 8 // to a joining member: the group is complete
	// signalJoined is for a shrink: the sender's join has completed, and it has entered the
	// round. Its value is the sum over the seats.
	signalJoined = 9
)

// The kinds of a piece.
const (
	pieceBroadcast    = 1
	pieceContribution = 2 // of a reduction, towards the root
	pieceResult       = 3 // of a reduction, to all
)

// hereSignal is a signal between two members of this NIC. These signals pass through a queue, so
// that long chains of them do not nest on the stack.
type hereSignal struct {
	to   *member
	from int
	sig  wire.Signal
}

// signal sends a signal to another member.
func (t *Table) signal(m *member, rank int, number uint32, what, round uint8, value uint64) {
	to := &m.g.seats[rank]
	s := wire.Signal{GroupHeader: m.header(to, number), What: what, Round: round, Value: value}
	if to.NIC == t.cfg.NIC {
		if o := t.members[to.number]; o != nil {
			t.here = append(t.here, hereSignal{o, m.rank, s})
		}
		return
	}
	if pr := t.nic.Peer(to.NIC); pr != nil {
		t.sendSignal(pr, s)
	}
}

// header returns the header of every record from m to another member.
func (m *member) header(to *seat, number uint32) wire.GroupHeader {
	return wire.GroupHeader{Group: to.number, Epoch: m.g.key.Index, Operation: number, Rank: uint32(m.rank)}
}

func (t *Table) sendSignal(pr *Peer, s wire.Signal) {
	t.count(vni.NICSignalsSent)
	now := t.nic.Now()
	b := pr.Control(now, wire.SignalLen)
	if b == nil {
		pr.Connect(now)
		pr.signals = append(pr.signals, s)
		return
	}
	s.Put(b)
}

// Run passes on the signals between members of this NIC.
func (t *Table) Run() {
	for i := 0; i < len(t.here); i++ {
		h := t.here[i]
		t.here[i] = hereSignal{}
		if t.members[h.sig.Group] == h.to {
			t.takeSignal(h.to, h.from, h.sig)
		}
	}
	t.here = t.here[:0]
}

// Signal handles a signal from a peer.
func (t *Table) Signal(pr *Peer, s wire.Signal) {
	m := t.addressed(&s.GroupHeader)
	if m == nil {
		return
	}
	// A NIC that sees other members cannot know which rank to send from.
	if s.What == signalMismatch || s.What == signalFull || t.isMember(pr, m, s.Rank) {
		t.takeSignal(m, int(s.Rank), s)
	}
}

// addressed returns the member that a record is for; nil if it has left.
func (t *Table) addressed(h *wire.GroupHeader) *member {
	if m := t.members[h.Group]; m != nil && m.g.key.Index == h.Epoch {
		return m
	}
	return nil
}

// isMember reports whether the member with a rank in m's group is at a peer, as far as that is
// known. If it is not, the peer is told so.
func (t *Table) isMember(pr *Peer, m *member, rank uint32) bool {
	if m.g.complete && (int(rank) >= len(m.g.seats) ||
		m.g.seats[rank].NIC != pr.NIC() && t.cfg.Defect != mutate.StrangerHeard) {
		t.stranger(pr, m)
		return false
	}
	return true
}

// stranger answers a NIC whose process wrongly believes that it is a member of m's group. The
// join of that process must not wait for ever.
func (t *Table) stranger(pr *Peer, m *member) {
	t.count(vni.DropFormat)
	for _, g := range t.list {
		if g == m.g || g.key != m.g.key {
			continue
		}
		for _, s := range g.live() {
			if s.NIC == pr.NIC() {
				t.sendSignal(pr, wire.Signal{
					GroupHeader: wire.GroupHeader{Group: s.number, Epoch: g.key.Index}, What: signalMismatch,
				})
			}
		}
	}
}

// open reports whether a member's operation may still proceed, and has not ended.
func (m *member) open(number uint32) bool {
	if m.ended(number) {
		return false
	}
	return m.ops[number] != nil || int32(number-m.next) >= 0 && !m.left
}

// tooFar reports whether others are further ahead of m than is possible.
func (m *member) tooFar(number uint32) bool {
	return m.ops[number] == nil && len(m.ops) > len(m.g.seats)*limits.CollectivesUnderWay+limits.GroupAhead
}

// takeSignal handles a signal from another member.
func (t *Table) takeSignal(m *member, from int, s wire.Signal) {
	switch s.What {
	case signalLost:
		if m.g.complete && s.Value < uint64(len(m.g.seats)) && !m.g.seats[s.Value].gone {
			t.loseSeat(m.g, int(s.Value), 0, true, int(s.Value))
		}
	case signalMismatch:
		if m.join != nil || m.g.complete && s.Value == m.g.sum {
			t.disagreed(m)
		}
	case signalFull:
		if m.join != nil && m.base == nil {
			t.endMisfit(m, uint32(s.Value), int(uint32(s.Value)))
		}
	case signalJoined:
		t.confirmHeard(m, s.Round, s.Value)
	default:
		t.operationSignal(m, from, s)
	}
}

// operationSignal handles a signal about an operation.
func (t *Table) operationSignal(m *member, from int, s wire.Signal) {
	if !m.open(s.Operation) {
		if s.What == signalRound && s.Operation == 0 && m.g.complete && s.Value != m.g.sum {
			if pr := t.peerOf(m, from); pr != nil {
				t.stranger(pr, m)
			}
		}
		return
	}
	if m.tooFar(s.Operation) {
		t.count(vni.DropFormat)
		t.mismatch(m)
		return
	}
	switch s.What {
	case signalRound:
		t.roundHeard(m, s)
	case signalOffer:
		t.offerHeard(m, from, s)
	case signalGrant, signalFetch, signalAck:
		if o := m.ops[s.Operation]; o != nil && o.known {
			t.legHeard(o, from, s.What)
		}
	default:
		t.count(vni.DropFormat)
	}
}

// Piece handles a piece from a peer.
func (t *Table) Piece(pr *Peer, p wire.Piece, payload []byte) {
	if m := t.addressed(&p.GroupHeader); m != nil && t.isMember(pr, m, p.Rank) {
		t.takePiece(m, int(p.Rank), &p, payload)
	}
}

// takePiece handles a piece from another member.
func (t *Table) takePiece(m *member, from int, p *wire.Piece, payload []byte) {
	if !m.g.complete || !m.open(p.Operation) {
		return
	}
	if int(p.Root) >= len(m.g.seats) || m.tooFar(p.Operation) {
		t.count(vni.DropFormat)
		return
	}
	o := t.operation(m, p.Operation)
	k := kindReduce
	if p.What == pieceBroadcast {
		k = kindBroadcast
	}
	if o.kind != kindUnknown && o.kind != k || (o.known || o.entered) && o.root != int(p.Root) ||
		k == kindReduce && o.known && (o.length != int(p.Length) || o.operator != vni.Operator(p.Operator)) {
		t.mismatch(m)
		return
	}
	o.kind, o.root = k, int(p.Root)
	if k == kindBroadcast {
		t.broadcastPiece(o, p, payload)
	} else {
		t.reducePiece(o, from, p, payload)
	}
}
