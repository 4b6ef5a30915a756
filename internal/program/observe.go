package program

import "github.com/weftnet/weft/pdl/vm"

// An Observer is told of the actions of a NIC's programs as they happen. It is for tools that
// show them, such as `weft pdl run`; a NIC in service has none. A nil function is not called.
// Slices and messages belong to the table again when a function returns.
type Observer struct {
	// More is asked before each message. If it returns false, the message stays in the queue.
	More func() bool
	// Handled is told the outcome of a message after the program was charged for it.
	Handled func(m *vm.Message, o vm.Outcome)
	// Sent is told of each SEND, and whether the NIC took the message.
	Sent func(from vm.ID, to vm.Destination, payload []byte, taken bool)
	// Delivered is told of each DELIVER into a segment.
	Delivered func(tr vm.Transfer, data []byte)
	// Displayed is told of each value that a program displays.
	Displayed func(from vm.ID, value int64)
}

// Observe makes o the observer of the table. A nil o ends the observation.
func (t *Table) Observe(o *Observer) { t.observer = o }

// SetBudget sets how many instructions an activation may execute. The default is
// limits.ProgramBudget. It must be called before the first program is loaded.
func (t *Table) SetBudget(instructions int) { t.budget = instructions }

// Unsent reports whether messages or commands for other NICs wait here.
func (t *Table) Unsent() bool {
	for pr := range t.nic.Peers {
		if len(pr.out) > 0 || len(pr.held) > 0 {
			return true
		}
	}
	return false
}

// mayHandle reports whether one more message may be handled. An observer can refuse it.
func (t *Table) mayHandle() bool {
	return t.observer == nil || t.observer.More == nil || t.observer.More()
}

func (t *Table) observeHandled(m *vm.Message, o vm.Outcome) {
	if t.observer != nil && t.observer.Handled != nil {
		t.observer.Handled(m, o)
	}
}

func (t *Table) observeSent(from vm.ID, to vm.Destination, payload []byte, taken bool) {
	if t.observer != nil && t.observer.Sent != nil {
		t.observer.Sent(from, to, payload, taken)
	}
}

func (t *Table) observeDelivered(tr vm.Transfer, data []byte) {
	if t.observer != nil && t.observer.Delivered != nil {
		t.observer.Delivered(tr, data)
	}
}

func (t *Table) observeDisplayed(from vm.ID, value int64) {
	if t.observer != nil && t.observer.Displayed != nil {
		t.observer.Displayed(from, value)
	}
}
