package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/wire"
)

// MaxDatagram is the largest number of bytes of a datagram.
const MaxDatagram = wire.MaxLetter // 16,360

// SendDatagram sends the concatenation of parts, at most [MaxDatagram] bytes, as a datagram, and
// returns when the parts may be used again. A datagram leaves at once or not at all. Datagrams keep
// no order and may be lost, but none arrives twice or damaged. They suit data that is worthless
// when late, and protocols that retransmit on their own.
//
// If no [Process.RecvDatagram] with its tag is in flight at the receiver, its NIC drops the
// datagram. Datagrams never wait there, so they use none of the receiver's memory.
//
// SendDatagram fails with [ErrUnreachable] or [ErrNameUnknown] if it cannot send to the peer, and
// with [ErrNoMemory] if too many datagrams wait for the link.
func (r Peer) SendDatagram(ctx context.Context, tag Tag, parts ...[]byte) error {
	if err := ended(ctx, opDatagram); err != nil {
		return err
	}
	d, word, err := r.letter(tag, parts)
	if err != nil {
		return err
	}
	return opError(r.p.p.SendDatagram(ctx, d, word, parts...))
}

// StartSendDatagram begins a [Peer.SendDatagram] and does not wait. The parts must not change until
// op is done.
func (r Peer) StartSendDatagram(op *Op, tag Tag, parts ...[]byte) error {
	d, word, err := r.letter(tag, parts)
	if err != nil {
		return err
	}
	return r.p.begun(op, r.p.p.StartSendDatagramInto(&op.o, d, word, parts...))
}

const opDatagram = "send datagram"

// letter checks where a datagram goes, and its length.
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

// Flush sends the short messages and datagrams that start forms have begun. Without it an embedded
// NIC may keep them until its next poll, so that they share frames. Every call that waits flushes
// too.
func (p *port) Flush() { p.p.Flush() }

// RecvDatagram receives one datagram with a tag, or with [AnyTag], from any process, into the parts
// one after the other. A datagram that is longer than the parts fails with [ErrTruncated]. If
// several receives match a datagram, the one that was posted first gets it. With a daemon, each
// part must lie in a [Region] if there are several.
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

// StartRecvDatagram begins a [Process.RecvDatagram] and does not wait. The NIC owns the parts until
// op is done.
func (p *port) StartRecvDatagram(op *Op, tag Tag, parts ...[]byte) error {
	match, ok := p.match(tag)
	if !ok {
		return p.badTag(opRecvDatagram, tag)
	}
	return p.begun(op, p.p.StartRecvDatagramInto(&op.o, match, parts...))
}

const opRecvDatagram = "receive datagram"
