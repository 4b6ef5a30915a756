package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/wire"
)

// MaxDatagram is the most bytes of a datagram.
const MaxDatagram = wire.MaxLetter

// SendDatagram sends the concatenation of parts, at most [MaxDatagram] bytes, to a process, and returns when they may be reused. A
// datagram leaves at once or not at all, keeps no order, and may be lost on its way; it never comes twice, and never with other bytes.
// It is for what is worthless when it is late, and for protocols that repeat what is lost themselves. A datagram that finds no
// [Process.RecvDatagram] with its tag is dropped: nothing waits for a receiver, so a sender needs none of the receiver's memory.
//
// SendDatagram fails with [ErrUnreachable] or [ErrNameUnknown] if nothing can be sent there, and with [ErrNoMemory] if too many
// datagrams wait for the link already.
func (p *port) SendDatagram(ctx context.Context, to Address, tag Tag, parts ...[]byte) error {
	if err := ended(ctx, "send datagram"); err != nil {
		return err
	}
	d, err := p.letter(to, tag, parts)
	if err != nil {
		return err
	}
	return p.p.SendDatagram(ctx, d, p.base|uint64(tag), parts...)
}

// StartSendDatagramInto begins what SendDatagram does, with an Op that is new or done, and does not wait. The parts belong to the NIC
// until the Op is done.
func (p *port) StartSendDatagramInto(o *Op, to Address, tag Tag, parts ...[]byte) error {
	d, err := p.letter(to, tag, parts)
	if err != nil {
		return err
	}
	return p.owns(o, p.p.StartSendDatagramInto(&o.o, d, p.base|uint64(tag), parts...))
}

// Flush has leave at once what start forms have left to go with others: short messages and datagrams, which an embedded NIC would send with its next
// poll. A call that waits for anything has it leave as well.
func (p *port) Flush() { p.p.Flush() }

// letter is where a datagram goes, if it can be one.
func (p *port) letter(to Address, tag Tag, parts [][]byte) (d proc.Dest, err error) {
	const what = "send datagram"
	if d, err = p.addressed(what, to, tag); err != nil {
		return d, err
	}
	n := 0
	for _, b := range parts {
		n += len(b)
	}
	if n > MaxDatagram {
		return d, &OpError{Op: what, NIC: uint64(to.NIC), Slot: to.Slot, Err: fmt.Errorf("%w: %d bytes; expected at most %d", ErrBadArgument, n, MaxDatagram)}
	}
	return d, nil
}

// RecvDatagram receives one datagram with a tag, or with [AnyTag], from whichever process, into the parts, one behind the other. A
// datagram longer than these is [ErrTruncated]. Of several receives that a datagram matches, the one posted first gets it. Several
// parts must each lie in a [Region], unless the NIC is in this process.
func (p *port) RecvDatagram(ctx context.Context, tag Tag, parts ...[]byte) (m Message, err error) {
	if err := ended(ctx, "receive datagram"); err != nil {
		return m, err
	}
	match, ok := p.match(tag)
	if !ok {
		return m, p.badTag("receive datagram", tag)
	}
	pm, err := p.p.RecvDatagram(ctx, match, parts...)
	m.set(p.names, &pm)
	return m, err
}

// StartRecvDatagramInto begins what RecvDatagram does, with an Op that is new or done, and does not wait.
func (p *port) StartRecvDatagramInto(o *Op, tag Tag, parts ...[]byte) error {
	match, ok := p.match(tag)
	if !ok {
		return p.badTag("receive datagram", tag)
	}
	return p.owns(o, p.p.StartRecvDatagramInto(&o.o, match, parts...))
}
