package program

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// A message waits in the queue until it is handled.
type message struct {
	vm.Message
	from    vm.ID   // the sending program; 0: a process
	peer    *Peer   // the peer in whose window it is; nil: this NIC's, or a datagram
	session uint32  // of the peer: room is returned within it
	id      uint32  // the peer's number for it
	answer  bool    // the peer wants to know the outcome
	request Request // the command of a process of this NIC that wants to know it
	chain   int     // the number of this NIC's messages before it in its chain
	cost    int     // in a window, or in this NIC's own share of the queue
	got     int     // bytes that have arrived
	pieces  bool    // it arrives in several
}

// cost returns the room that a message takes of its limit.
func cost(length int) int { return length + limits.ProgramOverhead }

// newMessage returns a message with room for n bytes. If a message arrives in pieces, assemble
// clears the bytes.
func (t *Table) newMessage(n int) *message {
	m := t.spare.Take()
	*m = message{cost: cost(n)}
	m.Payload = t.nic.TakeBuffer(n)
	return m
}

func (t *Table) freeMessage(m *message) {
	t.nic.GiveBuffer(m.Payload)
	*m = message{}
	t.spare.Give(m)
}

// push puts a message into the queue.
func (t *Table) push(m *message) {
	t.queue = append(t.queue, m)
	if m.peer == nil {
		t.local += m.cost
	}
}

// pop takes the oldest message out of the queue.
func (t *Table) pop() *message {
	m := t.queue[t.head]
	t.queue[t.head] = nil
	// The rest moves to the front. Each message moves once for each time that the queue has
	// doubled.
	if t.head++; t.head > len(t.queue)/2 && t.head >= 64 {
		n := copy(t.queue, t.queue[t.head:])
		clear(t.queue[n:])
		t.queue, t.head = t.queue[:n], 0
	}
	if m.peer == nil {
		t.local -= m.cost
	}
	return m
}

// hasRoom reports whether the queue accepts one more message of this NIC's own.
func (t *Table) hasRoom(length int) bool { return t.local+cost(length) <= limits.ProgramQueue }

// handle passes a message to its program, or to its process.
func (t *Table) handle(m *message) {
	t.count(vni.NICProgramMessages)
	o := t.dispatch(m)
	switch o {
	case vm.NoProgram, vm.NoTrigger, vm.Inactive:
		t.count(vni.NICProgramsUnknown)
	case vm.Aborted:
		t.count(vni.NICProgramAborts)
	}
	t.observeHandled(&m.Message, o)
	t.release(m, o)
}

// dispatch finds the program or process of a message, which handles it.
func (t *Table) dispatch(m *message) vm.Outcome {
	if m.Program&ProcessBit != 0 {
		t.credit -= limits.ProgramDispatch
		t.current = m // messages that the process's guard sends follow from it
		given := t.nic.Deliver(m.Program, Arrival{NIC: m.Source, From: m.from, Trigger: m.Trigger, Payload: m.Payload})
		if t.current = nil; !given {
			return vm.NoProgram
		}
		return vm.Awaiting
	}
	l := t.loaded[m.Program]
	if l == nil {
		return vm.NoProgram
	}
	t.current = m
	timed := t.timed(l)
	o := t.activate(l, &m.Message)
	t.current = nil
	t.charge(l, o, timed)
	return o
}

// release returns the room of a message, and tells its sender the outcome.
func (t *Table) release(m *message, o vm.Outcome) {
	if m.request != nil {
		t.nic.Answered(m.request, o)
	}
	if pr := m.peer; pr != nil && pr.Session() == m.session {
		t.giveBack(pr, m, o)
	}
	t.freeMessage(m)
}

// giveBack returns room to a peer: at once if the peer wants to know the outcome, else when there
// is enough for a record.
func (t *Table) giveBack(pr *Peer, m *message, o vm.Outcome) {
	pr.owed += m.cost
	if t.cfg.Defect == mutate.ProgramRoomKept && m.id%8 == 0 {
		pr.owed -= m.cost
	}
	if m.answer {
		t.tellHandled(pr, m.id, o)
	} else if pr.owed >= limits.ProgramWindow/2 {
		t.tellHandled(pr, 0, 0)
	}
}
