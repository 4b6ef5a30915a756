package weft

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// A Port is a tag space of its own on a [Process], so that a library can share the process with an application and with other
// libraries. A message is sent from a port to the same port of its receiver, and is seen there alone: neither a receive of another port nor one
// of the process itself, which is port 0, takes it, whatever its tag, and [AnyTag] means any tag of that port. A Port has the methods by
// which a process sends and receives, with the same meaning; the rest belongs to its [Port.Process].
//
// Ports share what the process has: its name, its contexts, and the NIC's memory for messages that no receive waits for. A message for a port
// that nothing receives on waits like one with a tag that nothing receives.
type Port struct {
	port
	number uint16
}

// Port takes the port with a number, 1 to 65535, which the libraries of a fabric agree on as they do on names. Those from 0xff00 on
// are for libraries that come with Weft. It fails with [ErrPortInUse] until the last one to take it has closed it, with [ErrBadArgument]
// for 0, which is the process's own, and with [ErrClosed] when the process is closed.
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

// Number is the port's number.
func (o *Port) Number() uint16 { return o.number }

// Process is the process whose port it is.
func (o *Port) Process() *Process { return o.of }

// Close gives the port's number back. Operations that begin later fail with [ErrClosed]; those under way go on, until they end or the
// process does. Messages that nothing has received wait for the next one to take the port.
func (o *Port) Close() error {
	if !o.closed.Swap(true) {
		o.of.ports.give(o.number)
	}
	return nil
}

// port is what the messages of a port and those of a process, which are those of its port 0, have in common.
type port struct {
	p      *proc.Process
	of     *Process
	names  *nameCache
	base   uint64 // the port, where it stands in a tag
	closed atomic.Bool
}

// word is a tag of the port as the NIC knows it. ok is false if no message can have it, or if the port is closed.
func (p *port) word(tag Tag) (w uint64, ok bool) {
	return p.base | uint64(tag), tag <= MaxTag && !p.closed.Load()
}

// match is which messages of the port a receive takes; ok is false if there can be none.
func (p *port) match(tag Tag) (m proc.Match, ok bool) {
	if tag == AnyTag {
		return proc.Match{Tag: p.base, Any: true}, !p.closed.Load()
	}
	m.Tag, ok = p.word(tag)
	return m, ok
}

// badTag says why a tag is refused.
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

// portsTaken is which ports of a process are in use.
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
