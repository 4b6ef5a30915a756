package program

import (
	"maps"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/vm"
)

// outgoing is a message on its way to a program of another NIC.
//
//	waits ── room in the peer's window ──► in the window ── pieces, as rel accepts them ──► left
type outgoing struct {
	head wire.Program
	body []byte // transit memory
	sent int    // bytes
	in   bool   // in the window
	left bool   // all of it has left; the peer returns the room
}

// asked is a command of a process for which another NIC owes an answer.
type asked struct {
	request Request
	peer    *Peer
}

// sendTo sends to a program of a peer. It reports whether the message has left or may wait.
func (t *Table) sendTo(pr *Peer, from vm.ID, to vm.Destination, payload []byte) bool {
	if t.sendAtOnce(pr, from, to, payload) {
		return true
	}
	if !pr.hasRoom(len(payload)) {
		return false
	}
	o := t.newOutgoing(from, to, len(payload))
	copy(o.body, payload)
	t.post(pr, o)
	return true
}

// sendAtOnce sends a message that fits one record to a peer without waiting messages, and so
// avoids a copy that waits. It reports whether it could.
func (t *Table) sendAtOnce(pr *Peer, from vm.ID, to vm.Destination, payload []byte) bool {
	n, space := len(payload), wire.SpaceFor(len(payload))
	if len(pr.out) > 0 || !pr.Up() || pr.inFlight+cost(n) > limits.ProgramWindow ||
		wire.ProgramLen+n > pr.MaxRecord(space) {
		return false
	}
	b := pr.Reserve(t.nic.Now(), space, wire.ProgramLen+n)
	if b == nil {
		return false
	}
	head := wire.Program{
		Program: uint32(to.Program), Trigger: to.Trigger, From: uint32(from), ID: t.nextID(), Length: uint16(n),
	}
	head.Put(b, n)
	copy(b[wire.ProgramLen:], payload)
	pr.inFlight += cost(n)
	return true
}

// nextID returns a message number for which no answer is owed.
func (t *Table) nextID() uint32 {
	for t.lastID++; t.lastID == 0 || t.asked[t.lastID].request != nil; t.lastID++ {
	}
	return t.lastID
}

// hasRoom reports whether one more message may wait for a peer.
func (pr *Peer) hasRoom(length int) bool { return pr.waiting+cost(length) <= limits.ProgramWaiting }

// newOutgoing makes a message of n bytes. The caller writes them into its body.
func (t *Table) newOutgoing(from vm.ID, to vm.Destination, n int) *outgoing {
	return &outgoing{body: t.nic.TakeBuffer(n),
		head: wire.Program{
			Program: uint32(to.Program), Trigger: to.Trigger, From: uint32(from), ID: t.nextID(), Length: uint16(n),
		}}
}

// post sends a message as soon as possible. Without a session, Watch begins an attempt at one.
func (t *Table) post(pr *Peer, o *outgoing) {
	pr.out = append(pr.out, o)
	pr.waiting += cost(len(o.body))
	pr.Watch(1)
	t.pump(pr)
}

// pump sends a peer the messages that have room in its window, as far as rel accepts them.
func (t *Table) pump(pr *Peer) {
	done := 0
	for _, o := range pr.out {
		if !pr.Up() || !o.in && pr.inFlight+cost(len(o.body)) > limits.ProgramWindow {
			break
		}
		if !o.in {
			o.in = true
			pr.waiting -= cost(len(o.body))
			pr.inFlight += cost(len(o.body))
		}
		if !t.sendPieces(pr, o) {
			break // Writable will follow
		}
		done++
		pr.Watch(-1)
		t.nic.GiveBuffer(o.body)
	}
	pr.out = slices.Delete(pr.out, 0, done)
}

// sendPieces sends the rest of a message. False means that rel accepts no more.
func (t *Table) sendPieces(pr *Peer, o *outgoing) bool {
	space := wire.SpaceFor(len(o.body))
	for !o.left {
		n := min(len(o.body)-o.sent, pr.MaxRecord(space)-wire.ProgramLen)
		b := pr.Reserve(t.nic.Now(), space, wire.ProgramLen+n)
		if b == nil {
			return false
		}
		head := o.head
		head.Offset = uint16(o.sent)
		head.Put(b, n)
		copy(b[wire.ProgramLen:], o.body[o.sent:o.sent+n])
		o.sent += n
		o.left = o.sent == len(o.body)
	}
	return true
}

// Writable continues messages to a peer.
func (t *Table) Writable(pr *Peer) {
	t.pump(pr)
	t.unholdTo(pr)
}

// Handled handles the room that a peer returns, and its outcome of a message.
func (t *Table) Handled(pr *Peer, rec wire.Record) {
	h := rec.Handled()
	if int(h.Bytes) > pr.inFlight { // no correct NIC returns more than it was sent
		t.count(vni.DropFormat)
		return
	}
	pr.inFlight -= int(h.Bytes)
	if a := t.asked[h.ID]; a.peer == pr {
		t.forgetAsked(h.ID)
		t.nic.Answered(a.request, vm.Outcome(h.Outcome))
	}
	t.pump(pr)
	t.unholdTo(pr)
}

func (t *Table) forgetAsked(id uint32) {
	pr := t.asked[id].peer
	pr.asked--
	pr.Watch(-1)
	delete(t.asked, id)
}

// tellHandled returns its room to a peer, with the outcome of a message; id 0 is none.
func (t *Table) tellHandled(pr *Peer, id uint32, o vm.Outcome) {
	if b := pr.Control(t.nic.Now(), wire.HandledLen); b != nil {
		h := wire.Handled{ID: id, Bytes: uint32(pr.owed), Outcome: uint8(o)}
		h.Put(b)
		pr.used -= pr.owed
		pr.owed = 0
	}
}

// Up begins a session: it tells the peer of the programs here, and sends the messages that have
// waited for it.
func (t *Table) Up(pr *Peer) {
	t.announceAll(pr)
	t.tellDriver(pr)
	t.pump(pr)
}

// Down ends a session, or the attempt at one. Messages in flight are lost, and commands that wait
// for an answer end.
func (t *Table) Down(pr *Peer, status vni.Status) {
	for _, o := range pr.out {
		t.count(vni.NICProgramsLost)
		pr.Watch(-1)
		t.nic.GiveBuffer(o.body)
	}
	pr.out, pr.waiting, pr.inFlight = pr.out[:0], 0, 0
	// in the same order in every run of a seed
	for _, id := range slices.Sorted(maps.Keys(t.asked)) {
		if a := t.asked[id]; a.peer == pr {
			t.forgetAsked(id)
			t.nic.Ended(a.request, status)
		}
	}
	held := pr.held
	pr.held = nil
	for _, h := range held {
		t.nic.Ended(h.request, status)
	}
	for _, m := range pr.assemblies {
		t.freeMessage(m)
	}
	clear(pr.assemblies)
	pr.used, pr.owed = 0, 0
	if t.driver != nil {
		t.driver.EndSession(pr.NIC())
	}
	if t.cfg.Defect != mutate.ProgramsOutlive {
		t.forgetAnnounced(pr)
	}
}
