package weft

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Port is a tag space of its own on a [Process], so that a library can share a process with an
// application and with other libraries. A message that is sent from a port arrives at the same port
// of its receiver, and no receive of another port takes it, whatever its tag. [AnyTag] means any tag
// of the port. The process itself is port 0. A Port sends and receives as a process does; for the
// rest use [Port.Process].
//
// Ports share what the process has: its name, its contexts, and the NIC's memory for unexpected
// messages. A message for a port on which nothing receives waits like any other unexpected message.
type Port struct {
	port
	number uint16
}

// Port takes the port with a number, 1 to 65535. Libraries of a fabric agree on numbers as they agree
// on names; those of 0xff00 and more are for libraries that come with Weft. It fails with
// [ErrPortInUse] while another Port of the process has the number, with [ErrBadArgument] for 0, and
// with [ErrClosed] if the process is closed.
func (p *Process) Port(number uint16) (*Port, error) {
	if number == 0 {
		return nil, &OpError{Op: "port", Err: fmt.Errorf("%w: port 0 is the process's own; expected 1 to 65535", ErrBadArgument)}
	}
	if p.p.Closed() {
		return nil, &OpError{Op: "port", Err: ErrClosed}
	}
	o := &Port{number: number}
	o.port = port{p: p.p, of: p, names: p.names, base: uint64(number) << vni.PortShift}
	if !p.ports.take(number) {
		return nil, &OpError{Op: "port", Err: fmt.Errorf("%w: %d of %v", ErrPortInUse, number, p.name)}
	}
	return o, nil
}

// Number returns the port's number.
func (o *Port) Number() uint16 { return o.number }

// Process returns the process that has the port.
func (o *Port) Process() *Process { return o.of }

// Close releases the port's number. Later operations fail with [ErrClosed]; those in flight go on.
// Unexpected messages wait for the next Port with the number.
func (o *Port) Close() error {
	if !o.closed.Swap(true) {
		o.of.ports.give(o.number)
	}
	return nil
}

// port is the part that a Port and a Process, which is its own port 0, have in common.
type port struct {
	p      *proc.Process
	of     *Process
	names  *nameCache
	base   uint64 // the port, where it stands in a tag
	closed atomic.Bool
}

// word returns a tag of the port as the NIC knows it. ok is false if no message can have the tag, or
// if the port is closed.
func (p *port) word(tag Tag) (w uint64, ok bool) {
	return p.base | uint64(tag), tag <= MaxTag && !p.closed.Load()
}

// match returns which messages of the port a receive takes; ok is false if there can be none.
func (p *port) match(tag Tag) (m proc.Match, ok bool) {
	if tag == AnyTag {
		return proc.Match{Tag: p.base, Any: true}, !p.closed.Load()
	}
	m.Tag, ok = p.word(tag)
	return m, ok
}

// badTag returns the reason why a tag is refused.
func (p *port) badTag(op string, tag Tag) error {
	err := ErrClosed
	switch {
	case p.closed.Load():
	case tag == AnyTag:
		err = fmt.Errorf("%w: AnyTag is for receives; expected a tag of at most %d bits", ErrBadArgument, vni.PortShift)
	default:
		err = fmt.Errorf("%w: tag %#x; expected one of at most %d bits", ErrBadArgument, uint64(tag), vni.PortShift)
	}
	return &OpError{Op: op, Err: err}
}

// portsTaken holds the ports of a process that are in use.
type portsTaken struct {
	mu    sync.Mutex
	taken map[uint16]bool
}

func (t *portsTaken) take(number uint16) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[number] {
		return false
	}
	if t.taken == nil {
		t.taken = make(map[uint16]bool)
	}
	t.taken[number] = true
	return true
}

func (t *portsTaken) give(number uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, number)
}
