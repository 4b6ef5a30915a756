package program

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// host is the table in the view of the machine: the requests of programs to their NIC (vm.Host).
type host Table

var _ vm.Host = (*host)(nil)

func (h *host) table() *Table { return (*Table)(h) }

// Clock implements vm.Host.
func (h *host) Clock() int64 { return int64(h.nic.Clock()) }

// Lookup implements vm.Host.
func (h *host) Lookup(of prog.SymbolKind, name string, nic uint64) (number int64, ok bool) {
	return h.table().Lookup(of, name, nic)
}

// Lookup returns the meaning of a name: the number of a program of a NIC, or the id of a node.
func (t *Table) Lookup(of prog.SymbolKind, name string, nic uint64) (number int64, ok bool) {
	if of == prog.NodeName {
		nic, ok := t.nodeNamed(name)
		return int64(nic), ok
	}
	id, ok := t.namedAt(nic, name)
	return int64(id), ok
}

// Members implements vm.Host: it visits programs of this NIC and of NICs with an open session.
func (h *host) Members(from vm.ID, name string, visit func(vm.Destination)) {
	t := h.table()
	if id, ok := t.named(name); ok && id != from {
		visit(vm.Destination{Program: id})
	}
	for pr := range t.nic.Peers {
		if id, ok := pr.names[name]; ok && pr.Up() {
			visit(vm.Destination{Program: id, NIC: pr.NIC()})
		}
	}
}

// Send implements vm.Host. When it returns, the message is in a queue here, in the window of a
// peer, or waits for room there.
func (h *host) Send(from vm.ID, to vm.Destination, payload []byte) bool {
	t := h.table()
	t.sends++
	if t.sends > limits.ProgramSends || !t.send(from, to, payload) {
		t.observeSent(from, to, payload, false)
		t.count(vni.NICProgramSendsRefused)
		t.refuse(from)
		return false
	}
	t.observeSent(from, to, payload, true)
	t.count(vni.NICProgramSends)
	return true
}

func (t *Table) send(from vm.ID, to vm.Destination, payload []byte) bool {
	if to.NIC == 0 || to.NIC == t.cfg.NIC {
		return t.sendHere(from, to, payload)
	}
	pr := t.nic.Peer(to.NIC)
	if pr == nil {
		return false
	}
	if pr.programs[to.Program].resident {
		return t.sendDatagram(pr, from, to, payload)
	}
	return t.sendTo(pr, from, to, payload)
}

// sendHere sends to a program or process of this NIC.
func (t *Table) sendHere(from vm.ID, to vm.Destination, payload []byte) bool {
	chain, ok := t.follows(from)
	if !ok || !t.hasRoom(len(payload)) {
		return false
	}
	m := t.newMessage(len(payload))
	copy(m.Payload, payload)
	m.Program, m.Trigger, m.Source, m.from, m.chain = to.Program, to.Trigger, t.cfg.NIC, from, chain
	t.push(m)
	return true
}

// sendDatagram sends to a resident program: at most once, and perhaps not at all. A datagram that
// cannot leave is lost.
func (t *Table) sendDatagram(pr *Peer, from vm.ID, to vm.Destination, payload []byte) bool {
	b := pr.Datagram(wire.ServiceProgram, wire.ProgramDatagramLen+len(payload))
	if b == nil {
		t.count(vni.NICProgramDatagramsLost)
		return true
	}
	d := wire.ProgramDatagram{Program: uint32(to.Program), Trigger: to.Trigger, From: uint32(from)}
	d.Put(b)
	copy(b[wire.ProgramDatagramLen:], payload)
	return true
}

// Display implements vm.Host (PANIC-26).
func (h *host) Display(from vm.ID, value int64) {
	if l := h.loaded[from]; l != nil {
		l.log.add(value)
	}
	h.table().observeDisplayed(from, value)
}

// Deliver implements vm.Host (PANIC-32). Host memory is near, so the bytes have moved when it
// returns.
func (h *host) Deliver(tr vm.Transfer, data []byte) vm.Status {
	part, ok := h.table().within(tr, len(data))
	if !ok {
		return vm.Refused
	}
	copy(part, data)
	h.table().observeDelivered(tr, data)
	return vm.Done
}

// Get implements vm.Host (PANIC-33).
func (h *host) Get(tr vm.Transfer, into []byte) vm.Status {
	part, ok := h.table().within(tr, len(into))
	if !ok {
		return vm.Refused
	}
	copy(into, part)
	return vm.Done
}

// within returns the part of a segment for a transfer.
func (t *Table) within(tr vm.Transfer, n int) ([]byte, bool) {
	s := t.segmentOf(tr.Segment)
	if s == nil {
		return nil, false
	}
	size := int64(len(s.data))
	if t.cfg.Defect == mutate.SegmentUnchecked {
		size = int64(cap(s.data))
	}
	if tr.Offset > size || int64(n) > size-tr.Offset {
		return nil, false
	}
	return s.data[tr.Offset:][:n:n], true
}
