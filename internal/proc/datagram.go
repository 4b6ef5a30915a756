package proc

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// A datagram reaches a process at once or not at all, and may be lost on its path. It needs no
// credit and keeps no order. A datagram that finds no receive with its tag does not wait for one.
// The NIC puts an arriving datagram into the memory of its receive, in up to as many pieces as an
// operation may name. So a page can go to its place in a cache, and its header elsewhere.

// SendDatagram sends the concatenation of parts, at most wire.MaxLetter bytes. It returns when
// the parts may be reused. If the datagram cannot leave, it fails: with ErrUnreachable, or with
// ErrNoMemory if too many datagrams wait.
func (p *Process) SendDatagram(ctx context.Context, to Dest, tag uint64, parts ...[]byte) error {
	if p.datagramStraight(to, tag, parts, false) {
		return nil
	}
	r := request{what: "send datagram", code: vni.CodeSendDatagram, with: to}
	parts, err := p.sendRequest(&r, tag, 0, parts)
	if err != nil {
		return r.fail(err)
	}
	return p.run(ctx, &r, parts)
}

// StartSendDatagramInto starts a SendDatagram with an Op that is new or done, and does not wait.
// The parts must stay unchanged until the operation is done.
func (p *Process) StartSendDatagramInto(o *Op, to Dest, tag uint64, parts ...[]byte) error {
	if o.free(p) && p.datagramStraight(to, tag, parts, true) {
		o.begin(p)
		o.done.Store(true)
		return nil
	}
	r := request{what: "send datagram", code: vni.CodeSendDatagram, with: to}
	parts, err := p.sendRequest(&r, tag, 0, parts)
	if err != nil {
		return r.fail(err)
	}
	return p.startOp(o, &r, parts)
}

// RecvDatagram receives one datagram, with one tag or any, into the parts, one after the other.
// If the datagram is longer, RecvDatagram fails with ErrTruncated.
func (p *Process) RecvDatagram(ctx context.Context, match Match, parts ...[]byte) (m Message, err error) {
	r, parts, err := p.recvDatagram(match, parts)
	if err != nil {
		return m, r.fail(err)
	}
	if err := p.begin(ctx, parts, &r); err != nil {
		return m, r.fail(err)
	}
	return p.end(ctx, r.op)
}

// StartRecvDatagramInto starts a RecvDatagram with an Op that is new or done. If there are
// several parts, each must lie in a region, unless the NIC is in this process.
func (p *Process) StartRecvDatagramInto(o *Op, match Match, parts ...[]byte) error {
	if o.free(p) && p.startStraightDatagram(o, match, parts) {
		return nil
	}
	r, parts, err := p.recvDatagram(match, parts)
	if err != nil {
		return r.fail(err)
	}
	return p.startOp(o, &r, parts)
}

func (p *Process) recvDatagram(match Match, parts [][]byte) (r request, all [][]byte, err error) {
	r = request{what: "receive datagram", code: vni.CodeReceiveDatagram, receive: true}
	r.receiveRequest(match, 0, nil)
	if len(parts) > p.pieces {
		return r, nil, fmt.Errorf("%w: a datagram into %d pieces, at most %d", ErrBadArgument, len(parts), p.pieces)
	}
	// An empty part does not count.
	if all, err = p.gather(&r, parts); len(all) == 1 {
		r.to(all[0])
		all = nil
	}
	return r, all, err
}

var errScattered = fmt.Errorf("%w: a datagram into several pieces that are not all in regions", ErrBadArgument)
