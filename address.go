package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// An Address is one process in one life. Messages to it reach that process or none: one that has its name later gets nothing, and the
// send fails with [ErrProcessGone] or [ErrStaleGeneration]. Order and all promises are those of messages by name: which of the two names a
// process does not matter.

// SendTo is [Process.Send] to the process at an address, which it needs no name for.
func (p *port) SendTo(ctx context.Context, to Address, tag Tag, parts ...[]byte) error {
	if err := ended(ctx, "send"); err != nil {
		return err
	}
	d, err := p.addressed("send", to, tag)
	if err != nil {
		return err
	}
	return p.p.Send(ctx, d, p.base|uint64(tag), parts...)
}

// StartSendToInto begins what SendTo does, with an Op that is new or done, and does not wait. The parts must stay as they are until the
// operation is done.
func (p *port) StartSendToInto(o *Op, to Address, tag Tag, parts ...[]byte) error {
	d, err := p.addressed("send", to, tag)
	if err != nil {
		return err
	}
	return p.owns(o, p.p.StartSendInto(&o.o, d, p.base|uint64(tag), parts...))
}

// SendDeliveredTo is [Process.SendDelivered] to the process at an address.
func (p *port) SendDeliveredTo(ctx context.Context, to Address, tag Tag, parts ...[]byte) error {
	if err := ended(ctx, "send"); err != nil {
		return err
	}
	d, err := p.addressed("send", to, tag)
	if err != nil {
		return err
	}
	return p.p.SendDelivered(ctx, d, p.base|uint64(tag), parts...)
}

// CallTo is [Process.Call] of the process at an address.
func (p *port) CallTo(ctx context.Context, to Address, tag Tag, request, reply []byte) (m Message, err error) {
	if err := ended(ctx, "call"); err != nil {
		return m, err
	}
	d, err := p.addressed("call", to, tag)
	if err != nil {
		return m, err
	}
	pm, err := p.p.Call(ctx, d, p.base|uint64(tag), reply, request)
	m.set(p.names, &pm)
	return m, err
}

// RecvFrom is [Process.Recv] from the process at an address. It fails when that process has ended, and nothing of it is left to receive.
func (p *port) RecvFrom(ctx context.Context, from Address, tag Tag, buf []byte) (m Message, err error) {
	if err := ended(ctx, "receive"); err != nil {
		return m, err
	}
	d, match, err := p.sourceAt("receive", from, tag)
	if err != nil {
		return m, err
	}
	return p.recv(ctx, &d, match, buf)
}

// StartRecvFromInto begins what RecvFrom does, with an Op that is new or done, and does not wait. buf must be left alone until the operation
// is done.
func (p *port) StartRecvFromInto(o *Op, from Address, tag Tag, buf []byte) error {
	d, match, err := p.sourceAt("receive", from, tag)
	if err != nil {
		return err
	}
	return p.owns(o, p.p.StartRecvInto(&o.o, d, match, buf))
}

// addressed is the destination of a message, or of a datagram, by its address.
func (p *port) addressed(op string, to Address, tag Tag) (proc.Dest, error) {
	if _, ok := p.word(tag); !ok {
		return proc.Dest{}, p.badTag(op, tag)
	}
	return to.dest(op)
}

// sourceAt reads what a receive chooses messages by, whose sender is named by its address.
func (p *port) sourceAt(op string, from Address, tag Tag) (d proc.Dest, m proc.Match, err error) {
	m, ok := p.match(tag)
	if !ok {
		return d, m, p.badTag(op, tag)
	}
	d, err = from.dest(op)
	return d, m, err
}

// dest is the process as the NIC knows it.
func (a Address) dest(op string) (proc.Dest, error) {
	if a.NIC == 0 || a.Generation == 0 {
		return proc.Dest{}, &OpError{Op: op, Err: fmt.Errorf("%w: address %v; expected that of a process, as WaitName and Message.Addr have", ErrBadArgument, a)}
	}
	return proc.Dest{NIC: uint64(a.NIC), Slot: a.Slot, Gen: a.Generation}, nil
}
