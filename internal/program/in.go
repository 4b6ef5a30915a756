package program

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/vm"
)

// Record handles a message from a peer, or a piece of one (PANIC-18). Run handles the message in
// its turn.
func (t *Table) Record(pr *Peer, rec wire.Record) {
	head, payload := rec.Program(), rec.Payload()
	m := pr.assemblies[head.ID]
	if m == nil {
		if m = t.begin(pr, &head); m == nil {
			return
		}
	}
	if len(m.Payload) != int(head.Length) || m.got+len(payload) > len(m.Payload) ||
		m.Program != vm.ID(head.Program) || m.Trigger != head.Trigger {
		t.count(vni.DropFormat) // all pieces of one message state the same
		return
	}
	if m.got == 0 && len(payload) < len(m.Payload) { // the first piece of several
		t.assemble(pr, head.ID, m)
	}
	copy(m.Payload[head.Offset:], payload)
	if m.got += len(payload); m.got < len(m.Payload) {
		return
	}
	if m.pieces {
		delete(pr.assemblies, head.ID)
	}
	t.push(m)
	if t.cfg.Defect == mutate.ProgramTwice && head.ID%16 == 0 {
		again := t.newMessage(len(m.Payload))
		copy(again.Payload, m.Payload)
		again.Message.Program, again.Trigger, again.Source, again.from = m.Program, m.Trigger, m.Source, m.from
		t.push(again)
	}
}

// begin makes a message for its first piece, if the peer has room for it.
func (t *Table) begin(pr *Peer, head *wire.Program) *message {
	n := int(head.Length)
	if pr.used+cost(n) > limits.ProgramWindow && t.cfg.Defect != mutate.ProgramRoomUnchecked {
		t.count(vni.DropFormat) // no correct NIC sends such a message
		return nil
	}
	m := t.newMessage(n)
	m.Program, m.Trigger, m.Source, m.from = vm.ID(head.Program), head.Trigger, pr.NIC(), vm.ID(head.From)
	m.peer, m.session, m.id, m.answer = pr, pr.Session(), head.ID, head.Flags&wire.FlagAccept != 0
	pr.used += m.cost
	return m
}

// assemble keeps a message of which more pieces follow.
func (t *Table) assemble(pr *Peer, id uint32, m *message) {
	// If pieces overlap, the bytes of an earlier message must not show.
	clear(m.Payload)
	if pr.assemblies == nil {
		pr.assemblies = make(map[uint32]*message)
	}
	m.pieces = true
	pr.assemblies[id] = m
}

// Datagram handles a message for a resident program, or one from a program that resides in a
// driver. Such a program answers only by datagrams, whatever has asked it. A message without room
// is lost, as it might have been on its way.
func (t *Table) Datagram(nic uint64, b []byte) {
	d, payload, err := wire.ParseProgramDatagram(b)
	if err != nil {
		t.count(vni.DropFormat)
		return
	}
	if !t.hasRoom(len(payload)) {
		t.count(vni.NICProgramDatagramsLost)
		return
	}
	m := t.newMessage(len(payload))
	copy(m.Payload, payload)
	m.Program, m.Trigger, m.Source, m.from = vm.ID(d.Program), d.Trigger, nic, vm.ID(d.From)
	t.push(m)
}
