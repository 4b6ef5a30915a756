package weft

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Port is a separate tag space of a [Process]. With its own port, a library can share a process
// with an application and with other libraries. If a process sends a message on a port, only
// receives on the port with the same number match the message. On a port, [AnyTag] means any tag of
// that port. A Process itself is port 0. A Port sends and receives like a Process; for other
// operations use [Port.Process].
//
// The ports of a process share the process's name and contexts, and the NIC's memory for unexpected
// messages. If nothing receives on a port, the messages of that port wait like other unexpected
// messages.
type Port struct {
	port
	number uint16
}

// Port opens the port with the given number, 1 to 65535. Both sides of a library must use the same
// number. Numbers from 0xff00 on are reserved for libraries that come with Weft. Port fails with
// [ErrPortInUse] if another open Port of the process has the number. It fails with [ErrBadArgument]
// if the number is 0, and with [ErrClosed] if the process is closed.
func (p *Process) Port(number uint16) (*Port, error) {
	if number == 0 {
		err := fmt.Errorf("%w: port 0 is the process's own; expected 1 to 65535", ErrBadArgument)
		return nil, &OpError{Op: "port", Err: err}
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

// Number returns the number of the port.
func (o *Port) Number() uint16 { return o.number }

// Process returns the process to which the port belongs.
func (o *Port) Process() *Process { return o.of }

// Close releases the number of the port. Later operations of the Port fail with [ErrClosed], but
// operations in flight continue. The port's unexpected messages wait for the next Port with the
// same number.
func (o *Port) Close() error {
	if !o.closed.Swap(true) {
		o.of.ports.give(o.number)
	}
	return nil
}

// port is the common part of Port and Process. A Process is its own port 0.
type port struct {
	p      *proc.Process
	of     *Process
	names  *nameCache // of the process
	base   uint64     // the port's number in the upper bits of a tag
	closed atomic.Bool
}

// word returns a tag of the port as the NIC knows it. ok is false if no message can have the tag,
// or if the port is closed.
func (p *port) word(tag Tag) (w uint64, ok bool) {
	return p.base | uint64(tag), tag <= MaxTag && !p.closed.Load()
}

// match returns the tags, as the NIC knows them, that a receive on the port matches. ok is false if
// no message can match, or if the port is closed.
func (p *port) match(tag Tag) (m proc.Match, ok bool) {
	if tag == AnyTag {
		return proc.Match{Tag: p.base, Any: true}, !p.closed.Load()
	}
	m.Tag, ok = p.word(tag)
	return m, ok
}

// badTag returns the error for a tag that word or match refused.
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

// portsTaken holds the numbers of the open ports of a process.
type portsTaken struct {
	mu    sync.Mutex
	taken map[uint16]bool
}

// take reserves a number, and reports whether it was free.
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
