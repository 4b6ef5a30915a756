package names

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Two processes of one rank may live at the same time (vni.Life). The newer one asks the older
// one's NIC to give up the name, and proves by the key of the job that it may ask:
//
//	newer's NIC                      home            older's NIC
//	waiting ── ask ────────────────► (older has the name)
//	        ◄─────────────── refused ─┤
//	        ── yield, proof ───────────────────────► the proof is good, and the incarnation lower:
//	        ◄────────────────────────────────── end ─ the process has lost its name
//	        ── ask ────────────────► granted
//	held
//
// If the older one's incarnation is higher, it is in fact the newer one: it answers, and the
// claimant is refused with ErrSuperseded. NICs need not believe an incarnation for this. They
// compare unproven incarnations only where they would otherwise compare the ids of NICs
// (contest.go).

// ErrSuperseded is the error for a process whose rank has a newer process.
var ErrSuperseded = errors.New("nic: a newer process of the rank has the name")

// The verdicts of a yield record.
const (
	yieldAsked      = 0 // the claimant asks the holder for the name
	yieldTaken      = 1 // the holder keeps it: the claimant has not proved that it is of the job
	yieldSuperseded = 2 // the holder keeps it: it is the newer process
)

// proofLen is the length of a proof: half of an HMAC with SHA-256.
const proofLen = 16

// prove returns the proof that a claimant to a name belongs to the job of the holder.
func prove(key *[32]byte, name vni.Name, holder, claimant vni.Address, incarnation uint64) (proof [proofLen]byte) {
	h := hmac.New(sha256.New, key[:])
	var b [limits.NameBytes + 4 + 16 + 16 + 8]byte
	copy(b[:], name.App[:])
	at := b[limits.NameBytes:]
	le.PutUint32(at, name.Index)
	putAddress(at[4:], holder)
	putAddress(at[20:], claimant)
	le.PutUint64(at[36:], incarnation)
	h.Write([]byte("weft yield"))
	h.Write(b[:])
	return [proofLen]byte(h.Sum(nil))
}

// press asks the holder of a name for it, once, if the claimant can prove that it may ask. It
// reports whether the claim waits for the holder.
func (t *Table) press(n *Entry, holder vni.Address) bool {
	switch {
	case !n.life.Proves() || holder == (vni.Address{}) || n.patience <= t.nic.Now():
		return false
	case holder.NIC == t.cfg.NIC:
		proof := prove(&n.life.Key, n.Name, holder, n.Address, n.incarnation)
		switch t.yields(t.byAddr[holder], n.Address, n.Name, n.incarnation, proof) {
		case yieldSuperseded:
			t.supersededBy(n)
			return true
		case yieldTaken:
			return false
		}
		t.pursue(n)
		return true
	case n.pressed != holder && !t.askForName(n, holder):
		return false
	}
	if o := t.byAddr[holder]; o != nil && o.dead { // the home has not heard of that end yet
		t.changed = true
	}
	return true
}

// askForName tells the NIC of a name's holder that a newer process claims the name.
func (t *Table) askForName(n *Entry, holder vni.Address) bool {
	p := t.nic.Peer(holder.NIC)
	if p == nil {
		return false
	}
	b := t.nic.Record(p.Endpoint, yieldLen)
	if b == nil {
		return false
	}
	n.pressed = holder
	putYield(b, yieldAsked, n.Address, holder, n.incarnation)
	proof := prove(&n.life.Key, n.Name, holder, n.Address, n.incarnation)
	copy(b[28:], proof[:])
	return true
}

func putYield(b []byte, verdict byte, claimant, holder vni.Address, incarnation uint64) {
	b[0], b[1] = wire.TableYield, verdict
	le.PutUint16(b[2:], claimant.Slot)
	le.PutUint32(b[4:], claimant.Gen)
	le.PutUint64(b[8:], incarnation)
	le.PutUint32(b[16:], holder.Gen)
	le.PutUint16(b[20:], holder.Slot)
}

// takeYield takes a request for a name of this NIC, or the answer to such a request.
func (t *Table) takeYield(p *Peer, b []byte) {
	if b[1] != yieldAsked {
		t.takeYieldAnswer(p, t.own(b[2:]), b)
		return
	}
	claimant := vni.Address{NIC: p.NIC(), Slot: le.Uint16(b[2:]), Gen: le.Uint32(b[4:])}
	holder := vni.Address{NIC: t.cfg.NIC, Slot: le.Uint16(b[20:]), Gen: le.Uint32(b[16:])}
	own, incarnation := t.byAddr[holder], le.Uint64(b[8:])
	if own == nil || own.dead { // its end is in flight to the claimant
		return
	}
	if !t.mayClaim(p.NIC(), own.Name) || claimant.Slot == 0 {
		t.count(vni.NICNamesForbidden)
		return
	}
	verdict := t.yields(own, claimant, own.Name, incarnation, [proofLen]byte(b[28:]))
	if verdict == yieldAsked {
		return
	}
	if b := t.nic.Record(p.Endpoint, yieldLen); b != nil {
		putYield(b, verdict, claimant, holder, own.incarnation)
	}
}

// yields gives the name of a process of this NIC to a claimant, and returns yieldAsked. If the
// process keeps the name, yields returns the verdict.
func (t *Table) yields(own *Entry, claimant vni.Address, name vni.Name, incarnation uint64, proof [proofLen]byte) byte {
	if own == nil || own.dead || own.Name != name || !own.life.Proves() {
		return yieldTaken
	}
	want := prove(&own.life.Key, own.Name, own.Address, claimant, incarnation)
	switch {
	case !hmac.Equal(want[:], proof[:]) && t.cfg.Defect != mutate.ProofUnchecked:
		t.count(vni.NICNamesForbidden)
		return yieldTaken
	case incarnation == own.incarnation:
		return yieldTaken
	case incarnation < own.incarnation && t.cfg.Defect != mutate.OlderTakesOver:
		return yieldSuperseded
	}
	t.count(vni.NICNameConflicts)
	if own.state != claimHeld { // it has asked for the name, and does not have it yet
		t.supersededBy(own)
		return yieldAsked
	}
	t.loses(own, &Entry{Name: name, Address: claimant})
	return yieldAsked
}

// supersededBy refuses a claim of this NIC, since a newer process of the rank has the name or
// claims it.
func (t *Table) supersededBy(n *Entry) {
	t.abandon(n)
	t.count(vni.NICNamesRefused)
	t.nic.Refused(n.Slot, ErrSuperseded)
}

// takeYieldAnswer handles the refusal of a process that this NIC has asked for its name.
func (t *Table) takeYieldAnswer(p *Peer, n *Entry, b []byte) {
	holder := vni.Address{NIC: p.NIC(), Slot: le.Uint16(b[20:]), Gen: le.Uint32(b[16:])}
	switch {
	case n == nil || n.dead || n.state != claimWaiting || n.pressed != holder: // late
	case b[1] == yieldSuperseded:
		t.supersededBy(n)
	default:
		t.refuse(n, holder)
	}
}
