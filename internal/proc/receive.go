package proc

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/vni"
)

// Recv receives one message into buf: from a process, or from any if from is zero; with a tag, or any. Of several
// receives that a message matches, the one posted first gets it. If the message is longer than buf, Recv fails with
// ErrTruncated, and the Message and the first bytes are there nevertheless. If ctx ends first, Recv returns its error
// and no message is lost: one that had met this receive already is returned instead (decision 9).
func (p *Process) Recv(ctx context.Context, from Dest, match Match, buf []byte) (m Message, err error) {
	err = p.RecvInto(ctx, &m, &from, match, buf)
	return m, err
}

// RecvInto is Recv that writes what is known of the message into m, which is empty.
func (p *Process) RecvInto(ctx context.Context, m *Message, from *Dest, match Match, buf []byte) error {
	if o := p.recvStraight(from, match, buf); o != nil {
		return p.endStraight(ctx, o, m)
	}
	for {
		r := request{what: "receive", code: vni.CodeReceive, receive: true, with: *from, waits: true}
		r.receiveRequest(match, 0, buf)
		if err := p.begin(ctx, nil, &r); err != nil {
			return r.fail(err)
		}
		// A message whose sender gives up when some of it has been consumed ends its receive: the NIC cannot begin again
		// with memory that is not described any more. The caller is not told of it.
		if err := p.endInto(ctx, r.op, m); !errors.Is(err, errWithdrawn) {
			return err
		}
		*m = Message{}
	}
}

// StartRecv begins what Recv does, and does not wait: ErrQueueFull if all contexts are taken. buf must be left alone
// until the operation is done.
func (p *Process) StartRecv(from Dest, match Match, buf []byte) (*Op, error) {
	return started(func(o *Op) error { return p.StartRecvInto(o, from, match, buf) })
}

// StartRecvInto is StartRecv that uses an Op again, new or done, so that nothing is allocated.
func (p *Process) StartRecvInto(o *Op, from Dest, match Match, buf []byte) error {
	if o.free(p) && p.startStraight(o, from, match, buf) {
		return nil
	}
	r := request{what: "receive", code: vni.CodeReceive, receive: true, with: from}
	r.receiveRequest(match, 0, buf)
	return p.startOp(o, &r, nil)
}

func (r *request) receiveRequest(match Match, flags uint32, buf []byte) {
	if match.Any {
		flags |= vni.AnyTag
	}
	r.recv.Sender, r.recv.Gen, r.recv.NIC, r.recv.Slot = r.with.Name, r.with.Gen, r.with.NIC, r.with.Slot
	r.recv.Tag, r.recv.Flags = match.Tag, flags
	r.to(buf)
}

// Call sends a message and waits for the reply to it, which it receives into reply; the Message is about the reply.
// Its Tag is 0. As with Recv, a reply longer than that is ErrTruncated. The receive is posted before the message, or, by the straight way, behind it but before
// the NIC takes anything in, so the reply always finds it. A message that was refused after it counted as sent has no reply: then ctx ends the
// Call, or the end of the process it was for.
func (p *Process) Call(ctx context.Context, to Dest, tag uint64, reply []byte, parts ...[]byte) (Message, error) {
	m, err, ok := p.callStraight(ctx, &to, tag, reply, parts)
	if !ok {
		m, err = p.callLong(ctx, to, tag, reply, parts)
	}
	m.Tag = 0 // else it is the token
	return m, err
}

// callLong is Call by two contexts.
func (p *Process) callLong(ctx context.Context, to Dest, tag uint64, reply []byte, parts [][]byte) (Message, error) {
	s := request{what: "call", code: vni.CodeSend, with: to, call: true}
	parts, err := p.sendRequest(&s, tag, vni.IsCall, parts)
	if err != nil {
		return Message{}, s.fail(err)
	}
	r := request{what: "call", code: vni.CodeReceive, receive: true, with: to, call: true}
	r.receiveRequest(Match{}, vni.IsReply, reply)
	if err := p.begin(ctx, parts, &r, &s); err != nil {
		return Message{}, s.fail(err)
	}
	if _, err := p.end(ctx, s.op); err != nil {
		p.cancel(r.op, false) // no reply will come, unless the message went out nevertheless
		if m, late := p.end(ctx, r.op); late == nil {
			return m, nil
		}
		return Message{}, err
	}
	return p.end(ctx, r.op)
}
