package program

import (
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A process sends to a program by one command (PANIC-19, PANIC-22). The command ends when its
// memory may be used again or, if it asks for the outcome, when the message has been handled. If
// there is no room, commands wait in their order.

// held is a command that waits for room.
type held struct {
	request Request
	to      vm.Destination
	length  int
	answer  bool
}

// Command handles a command of a process. The length is at most prog.MaxMessage.
func (t *Table) Command(r Request, to vm.Destination, length int, answer bool) {
	h := held{r, to, length, answer}
	if to.NIC == 0 || to.NIC == t.cfg.NIC {
		h.to.NIC = 0
		if len(t.held) > 0 || !t.hasRoom(length) {
			t.held = append(t.held, h)
			return
		}
		t.begun(h)
		return
	}
	pr := t.nic.Peer(to.NIC)
	switch {
	case pr == nil:
		t.nic.Ended(r, vni.StatusUnreachable)
	case len(pr.held) > 0 || !pr.hasRoom(length):
		pr.held = append(pr.held, h)
	default:
		t.begunTo(pr, h)
	}
}

// Post sends a message that comes from no process to a program of this NIC. If no program would
// handle it now, it is counted and refused.
func (t *Table) Post(id vm.ID, trigger uint32, payload []byte) error {
	if err := t.takes(id, trigger); err != nil {
		t.count(vni.NICProgramsUnknown)
		return fmt.Errorf("send to program %d: %w", id, err)
	}
	switch {
	case len(payload) > prog.MaxMessage:
		return fmt.Errorf("send to program %d: %d bytes; at most %d", id, len(payload), prog.MaxMessage)
	case !t.hasRoom(len(payload)):
		return fmt.Errorf("send to program %d: %w: too many messages wait", id, ErrNoRoom)
	}
	m := t.newMessage(len(payload))
	copy(m.Payload, payload)
	m.Program, m.Trigger, m.Source = id, trigger, t.cfg.NIC
	t.push(m)
	return nil
}

// takes returns the reason why a program would not handle a message for a trigger; nil if it
// would.
func (t *Table) takes(id vm.ID, trigger uint32) error {
	info, ok := t.Info(id)
	if !ok {
		return ErrNoProgram
	}
	if !info.Running {
		why := "was never started"
		if info.State() == "stopped" {
			why = "is stopped"
		}
		return fmt.Errorf("%w: %s %s", ErrInactive, info.Module.Name, why)
	}
	if _, ok := info.Module.Find(trigger); !ok {
		numbers := make([]uint32, len(info.Module.Triggers))
		for i, tr := range info.Module.Triggers {
			numbers[i] = tr.Number
		}
		return fmt.Errorf("%w: %d; %s has %v", ErrNoTrigger, trigger, info.Module.Name, numbers)
	}
	return nil
}

// begun puts the message of a command into the queue.
func (t *Table) begun(h held) {
	m := t.newMessage(h.length)
	h.request.Read(m.Payload, 0)
	m.Program, m.Trigger, m.Source = h.to.Program, h.to.Trigger, t.cfg.NIC
	if h.answer {
		m.request = h.request
	}
	t.push(m)
	if !h.answer {
		t.nic.Ended(h.request, vni.StatusOK)
	}
}

// begunTo sends the message of a command to a peer. A datagram would bring no outcome, so a
// command that asks for one is sent reliably.
func (t *Table) begunTo(pr *Peer, h held) {
	if !h.answer && pr.programs[h.to.Program].resident {
		b := t.nic.TakeBuffer(h.length)
		h.request.Read(b, 0)
		t.sendDatagram(pr, 0, h.to, b)
		t.nic.GiveBuffer(b)
		t.nic.Ended(h.request, vni.StatusOK)
		return
	}
	o := t.newOutgoing(0, h.to, h.length)
	h.request.Read(o.body, 0)
	if h.answer {
		o.head.Flags = wire.FlagAccept
		t.asked[o.head.ID] = asked{h.request, pr}
		pr.asked++
		pr.Watch(1)
	}
	t.post(pr, o)
	if !h.answer {
		t.nic.Ended(h.request, vni.StatusOK)
	}
}

// unhold continues commands for which there is room now.
func (t *Table) unhold() {
	for len(t.held) > 0 && t.hasRoom(t.held[0].length) {
		h := t.held[0]
		t.held = slices.Delete(t.held, 0, 1)
		t.begun(h)
	}
}

// unholdTo is unhold for commands to a peer.
func (t *Table) unholdTo(pr *Peer) {
	for len(pr.held) > 0 && pr.hasRoom(pr.held[0].length) {
		h := pr.held[0]
		pr.held = slices.Delete(pr.held, 0, 1)
		t.begunTo(pr, h)
	}
}

// Forget releases a command that its process gives up, wherever it is. Its message may still be
// handled.
func (t *Table) Forget(r Request) {
	is := func(h held) bool { return h.request == r }
	t.held = slices.DeleteFunc(t.held, is)
	for _, m := range t.queue[t.head:] {
		if m.request == r {
			m.request = nil
		}
	}
	for pr := range t.nic.Peers {
		pr.held = slices.DeleteFunc(pr.held, is)
	}
	for id, a := range t.asked {
		if a.request == r {
			t.forgetAsked(id)
			return
		}
	}
}
