package proc

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// A datagram goes to a process at once or not at all, and may be lost on its way. It needs no credit and keeps no order, and none
// that finds no receive with its tag waits for one. What comes is put where its receive wants it, in up to as many pieces as an
// operation may name: a page to its place in a cache, say, and what is said of it elsewhere.

// SendDatagram sends the concatenation of parts, at most wire.MaxLetter bytes. It returns when they may be reused. It fails if the
// datagram could not leave: ErrUnreachable, or ErrNoMemory if too many wait.
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

// StartSendDatagramInto begins what SendDatagram does, with an Op that is new or done, and does not wait. The parts must stay as they
// are until the operation is done.
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

// RecvDatagram receives one datagram with a tag, or any, into the parts, one behind the other. A longer one is ErrTruncated.
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

// StartRecvDatagramInto begins what RecvDatagram does, with an Op that is new or done. Several parts must each lie in a region, unless
// the NIC is in this process.
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
	if all, err = p.gather(&r, parts); len(all) == 1 { // an empty one beside it is none
		r.to(all[0])
		all = nil
	}
	return r, all, err
}

var errScattered = fmt.Errorf("%w: a datagram into several pieces that are not all in regions", ErrBadArgument)
