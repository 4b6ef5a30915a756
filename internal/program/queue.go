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
	from    vm.ID   // the program that has sent it; 0: a process
	peer    *Peer   // in whose window it is; nil: this NIC's, or a datagram
	session uint32  // of the peer: room is given back within it
	id      uint32  // the peer's
	answer  bool    // the peer wants to know the outcome
	request Request // the command of a process of this NIC that does
	chain   int     // messages of this NIC that it follows from
	cost    int     // of a window, or of this NIC's own share of the queue
	got     int     // bytes that have come
	pieces  bool    // it comes in several
}

// cost is what a message takes of what may be under way.
func cost(length int) int { return length + limits.ProgramOverhead }

// newMessage returns one with room for n bytes, which are zero if they come in pieces: of pieces that lie on one another, what another
// message has left there must not show.
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
	if t.head > 0 && t.head == len(t.queue) {
		t.queue, t.head = t.queue[:0], 0
	}
	t.queue = append(t.queue, m)
	if m.peer == nil {
		t.local += m.cost
	}
}

// pop takes the oldest message out of the queue.
func (t *Table) pop() *message {
	m := t.queue[t.head]
	t.queue[t.head] = nil
	if t.head++; t.head > len(t.queue)/2 && t.head >= 64 { // what is left moves to the front, each message once for each time that the queue has doubled
		n := copy(t.queue, t.queue[t.head:])
		clear(t.queue[n:])
		t.queue, t.head = t.queue[:n], 0
	}
	if m.peer == nil {
		t.local -= m.cost
	}
	return m
}

// hasRoom reports whether the queue takes one more message of this NIC's own.
func (t *Table) hasRoom(length int) bool { return t.local+cost(length) <= limits.ProgramQueue }

// handle has one message handled: by a program, or by the process that it is for.
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

// dispatch finds the program or process of a message, and has it handled there.
func (t *Table) dispatch(m *message) vm.Outcome {
	if m.Program&ProcessBit != 0 {
		t.credit -= limits.ProgramDispatch
		t.current = m // what the process's guard sends follows from it
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

// release gives back what a message has taken, and tells its sender what has become of it.
func (t *Table) release(m *message, o vm.Outcome) {
	if m.request != nil {
		t.nic.Answered(m.request, o)
	}
	if pr := m.peer; pr != nil && pr.Session() == m.session {
		t.giveBack(pr, m, o)
	}
	t.freeMessage(m)
}

// giveBack gives room back to a peer: at once if it wants to know the outcome, else when it is worth a record.
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
