package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/wire"
)

// MaxDatagram is the maximum length of a datagram in bytes.
const MaxDatagram = wire.MaxLetter // 16,360

// SendDatagram sends the concatenation of the parts as one datagram of at most [MaxDatagram] bytes.
// It returns when the caller may use the parts again. The NIC sends a datagram at once or not at
// all. Datagrams may arrive in any order and may be lost, but no datagram arrives twice or damaged.
// Datagrams suit data that is worthless when late, and protocols that retransmit on their own.
//
// If no [Process.RecvDatagram] with a matching tag is in flight at the receiver, the receiver's NIC
// drops the datagram. A datagram never waits at the receiver's NIC, so it uses none of the
// receiver's memory.
//
// SendDatagram fails with [ErrUnreachable] or [ErrNameUnknown] if the NIC cannot send to the peer.
// It fails with [ErrNoMemory] if too many datagrams wait for the link.
func (r Peer) SendDatagram(ctx context.Context, tag Tag, parts ...[]byte) error {
	if err := r.ended(ctx, opDatagram); err != nil {
		return err
	}
	d, word, err := r.letter(tag, parts)
	if err != nil {
		return err
	}
	return opError(r.p.p.SendDatagram(ctx, d, word, parts...))
}

// StartSendDatagram begins a [Peer.SendDatagram] and does not wait for its end. The parts must not
// change until op is done.
func (r Peer) StartSendDatagram(op *Op, tag Tag, parts ...[]byte) error {
	d, word, err := r.letter(tag, parts)
	if err != nil {
		return err
	}
	return r.p.begun(op, r.p.p.StartSendDatagramInto(&op.o, d, word, parts...))
}

const opDatagram = "send datagram"

// letter checks the receiver, the tag and the length of a datagram.
func (r Peer) letter(tag Tag, parts [][]byte) (d proc.Dest, word uint64, err error) {
	if d, word, err = r.receiver(opDatagram, tag); err != nil {
		return d, 0, err
	}
	n := 0
	for _, b := range parts {
		n += len(b)
	}
	if n > MaxDatagram {
		return d, 0, &OpError{Op: opDatagram, Peer: r.Name(), Addr: r.at,
			Err: fmt.Errorf("%w: %d bytes; expected at most %d", ErrBadArgument, n, MaxDatagram)}
	}
	return d, word, nil
}

// Flush sends the short messages and datagrams that start forms have begun to send. Without Flush,
// an embedded NIC may hold these messages and datagrams until its next poll, so that several of
// them share a frame. Every blocking call, such as [Process.Recv], also flushes.
func (p *port) Flush() { p.p.Flush() }

// RecvDatagram receives one datagram from any process. The datagram has the given tag, or any tag
// if tag is [AnyTag]. Its bytes fill the parts in order. If the datagram is longer than all parts
// together, RecvDatagram fails with [ErrTruncated]. If several receives match a datagram, the
// receive that was posted first gets the datagram. With a daemon, if there is more than one part,
// each part must lie in a [Region].
func (p *port) RecvDatagram(ctx context.Context, tag Tag, parts ...[]byte) (m Message, err error) {
	if err := ended(ctx, opRecvDatagram); err != nil {
		return m, err
	}
	match, ok := p.match(tag)
	if !ok {
		return m, p.badTag(opRecvDatagram, tag)
	}
	pm, err := p.p.RecvDatagram(ctx, match, parts...)
	m.set(p.names, &pm)
	return m, opError(err)
}

// StartRecvDatagram begins a [Process.RecvDatagram] and does not wait for its end. The NIC owns the
// parts until op is done.
func (p *port) StartRecvDatagram(op *Op, tag Tag, parts ...[]byte) error {
	match, ok := p.match(tag)
	if !ok {
		return p.badTag(opRecvDatagram, tag)
	}
	return p.begun(op, p.p.StartRecvDatagramInto(&op.o, match, parts...))
}

const opRecvDatagram = "receive datagram"
