// Package mem holds NICs in memory that only run programs, for tests of the virtual machine. No
// message is lost, and every run is the same.
//
//	Post, SEND ─► queue ─► Dispatch ─► SEND, DELIVER, GET, … ─► queue, segments, flags, Displayed
package mem

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// A Fabric holds some NICs and the messages and transfers between them.
type Fabric struct {
	// Step is the time by which each reading of the clock advances it, in ns.
	Step int64
	// Late delays the end of transfers until no message is left to handle, as if the memory were
	// far away.
	Late bool
	// Sends is the number of messages that an activation may send; 0 is any number.
	Sends int
	// Observe, if not nil, is called with the outcome of each message.
	Observe func(*NIC, vm.Message, vm.Outcome)
	// Ended, if not nil, is called with the final outcome of an activation that was first
	// reported as waiting, by Observe or by Start.
	Ended func(*NIC, vm.ID, vm.Outcome)

	now       int64
	nics      []*NIC
	queue     []posted
	transfers []func()
}

type posted struct {
	to  *NIC
	msg vm.Message
}

// A Value is something that a program displayed.
type Value struct {
	Program vm.ID
	Value   int64
}

// A Sent is a message that a program sent.
type Sent struct {
	From    vm.ID
	To      vm.Destination
	Payload []byte
}

// A Delivered holds the bytes that a program wrote into a segment.
type Delivered struct {
	vm.Transfer
	Data []byte
}

// A NIC is a NIC of a fabric. It implements vm.Host.
type NIC struct {
	ID      uint64
	Name    string
	Machine *vm.Machine

	Displayed []Value
	Sent      []Sent
	Delivered []Delivered
	Lost      []Sent // to NICs that do not exist

	fabric   *Fabric
	sends    map[vm.ID]int // of a program's current activation
	segments map[int64][]byte
	locks    map[int64]bool
	flags    map[int64]bool
}

var _ vm.Host = (*NIC)(nil)

// NewFabric returns a fabric whose clock advances by 1 µs at each reading.
func NewFabric() *Fabric { return &Fabric{Step: 1000} }

// Add adds a NIC. It sets cfg.Host.
func (f *Fabric) Add(id uint64, name string, cfg vm.Config) (*NIC, error) {
	n := &NIC{ID: id, Name: name, fabric: f,
		sends: make(map[vm.ID]int), segments: make(map[int64][]byte),
		locks: make(map[int64]bool), flags: make(map[int64]bool)}
	cfg.Host = n
	var err error
	if n.Machine, err = vm.New(cfg); err != nil {
		return nil, fmt.Errorf("add NIC %s: %w", name, err)
	}
	f.nics = append(f.nics, n)
	return n, nil
}

// Post enqueues a message, as if a process of the NIC had sent it.
func (n *NIC) Post(to vm.ID, trigger uint32, payload []byte) {
	n.fabric.queue = append(n.fabric.queue, posted{n,
		vm.Message{Program: to, Trigger: trigger, Source: n.ID, Payload: payload}})
}

// Run handles messages until none is left, but no more than the number most. It returns the
// number of handled messages.
func (f *Fabric) Run(most int) (handled int) {
	busy := 0 // consecutive messages that were put back
	for handled < most && len(f.queue)+len(f.transfers) > 0 {
		if len(f.transfers) > 0 && (len(f.queue) == 0 || busy >= len(f.queue) || !f.Late) {
			t := f.transfers[0]
			f.transfers = f.transfers[1:]
			t()
			busy = 0
			continue
		}
		p := f.queue[0]
		f.queue = f.queue[1:]
		o := p.to.dispatch(&p.msg)
		if o == vm.Busy {
			f.queue = append(f.queue, p)
			busy++
			continue
		}
		busy = 0
		handled++
		if f.Observe != nil {
			f.Observe(p.to, p.msg, o)
		}
	}
	return handled
}

// Start runs the initialisation of a program.
func (n *NIC) Start(id vm.ID) vm.Outcome {
	n.sends[id] = 0
	return n.Machine.Start(id)
}

// dispatch passes a message to the machine.
func (n *NIC) dispatch(m *vm.Message) vm.Outcome {
	sent := n.sends[m.Program]
	n.sends[m.Program] = 0
	o := n.Machine.Dispatch(m)
	if o == vm.Busy {
		n.sends[m.Program] = sent // the activation in progress goes on
	}
	return o
}

// Segment makes a segment of size bytes, all zero, and returns it. It replaces an existing one.
func (n *NIC) Segment(id int64, size int) []byte {
	n.segments[id] = make([]byte, size)
	return n.segments[id]
}

// SetLock sets a lock, as a process does.
func (n *NIC) SetLock(id int64) { n.locks[id] = true }

// Flags lists the flags that are set.
func (n *NIC) Flags() []int64 { return slices.Sorted(maps.Keys(n.flags)) }

// Clock implements vm.Host.
func (n *NIC) Clock() int64 {
	n.fabric.now += n.fabric.Step
	return n.fabric.now
}

// Lookup implements vm.Host.
func (n *NIC) Lookup(of prog.SymbolKind, name string, nic uint64) (int64, bool) {
	for _, o := range n.fabric.nics {
		if of == prog.NodeName {
			if strings.EqualFold(o.Name, name) { // case does not matter, as in a NIC
				return int64(o.ID), true
			}
			continue
		}
		if o.ID != nic && (nic != 0 || o != n) {
			continue
		}
		for _, id := range o.Machine.IDs() {
			if info, _ := o.Machine.Info(id); info.Module.Name == name {
				return int64(id), true
			}
		}
	}
	return 0, false
}

// Members implements vm.Host.
func (n *NIC) Members(from vm.ID, name string, visit func(vm.Destination)) {
	for _, o := range n.fabric.nics {
		if id, ok := n.Lookup(prog.ProgramName, name, o.ID); ok && (o != n || vm.ID(id) != from) {
			visit(vm.Destination{Program: vm.ID(id), NIC: o.ID})
		}
	}
}

// Send implements vm.Host.
func (n *NIC) Send(from vm.ID, to vm.Destination, payload []byte) bool {
	if n.sends[from]++; n.fabric.Sends > 0 && n.sends[from] > n.fabric.Sends {
		return false
	}
	s := Sent{from, to, slices.Clone(payload)}
	n.Sent = append(n.Sent, s)
	for _, o := range n.fabric.nics {
		if o.ID == to.NIC || to.NIC == 0 && o == n {
			n.fabric.queue = append(n.fabric.queue,
				posted{o, vm.Message{Program: to.Program, Trigger: to.Trigger, Source: n.ID, Payload: s.Payload}})
			return true
		}
	}
	n.Lost = append(n.Lost, s)
	return true
}

// within returns the part of a segment that a transfer covers. ok is false if the segment does
// not have it.
func (n *NIC) within(t vm.Transfer, size int) ([]byte, bool) {
	s := n.segments[t.Segment]
	if s == nil || t.Offset > int64(len(s)) || int64(size) > int64(len(s))-t.Offset {
		return nil, false
	}
	return s[t.Offset:][:size], true
}

// Deliver implements vm.Host.
func (n *NIC) Deliver(t vm.Transfer, data []byte) vm.Status {
	part, ok := n.within(t, len(data))
	if !ok {
		return vm.Refused
	}
	return n.move(t, func() {
		n.Delivered = append(n.Delivered, Delivered{t, slices.Clone(data)})
		copy(part, data)
	})
}

// Get implements vm.Host.
func (n *NIC) Get(t vm.Transfer, into []byte) vm.Status {
	part, ok := n.within(t, len(into))
	if !ok {
		return vm.Refused
	}
	return n.move(t, func() { copy(into, part) })
}

func (n *NIC) move(t vm.Transfer, do func()) vm.Status {
	if !n.fabric.Late {
		do()
		return vm.Done
	}
	n.fabric.transfers = append(n.fabric.transfers, func() {
		do()
		n.finish(t.Program)
	})
	return vm.Begun
}

// finish ends a transfer and resumes the program if it has waited for it.
func (n *NIC) finish(id vm.ID) {
	o := n.Machine.Finish(id, true)
	if o == vm.Busy || o == vm.Waiting || o == vm.Inactive || o == vm.NoProgram {
		return // this has ended no activation
	}
	if n.fabric.Ended != nil {
		n.fabric.Ended(n, id, o)
	}
}

// Lock implements vm.Host.
func (n *NIC) Lock(id int64) bool { return n.locks[id] }

// ClearLock implements vm.Host.
func (n *NIC) ClearLock(id int64) { delete(n.locks, id) }

// SetFlag implements vm.Host.
func (n *NIC) SetFlag(id int64) { n.flags[id] = true }

// Display implements vm.Host.
func (n *NIC) Display(from vm.ID, value int64) {
	n.Displayed = append(n.Displayed, Value{from, value})
}
