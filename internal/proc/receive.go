package proc

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/vni"
)

// Recv receives one message into buf: from one process, or from any process if from is zero; with
// one tag, or any. If a message matches several receives, the one that was posted first gets it.
// If the message is longer than buf, Recv fails with ErrTruncated, but still returns the Message
// and fills buf. If ctx ends first, Recv returns ctx's error and no message is lost: a message
// that has already met this receive is returned instead (decision 9).
func (p *Process) Recv(ctx context.Context, from Dest, match Match, buf []byte) (m Message, err error) {
	err = p.RecvInto(ctx, &m, &from, match, buf)
	return m, err
}

// RecvInto is Recv that writes the description of the message into m, which must be empty.
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
		// If a sender gives up after some of its message has been consumed, the receive ends,
		// because the NIC cannot begin again with memory that is no longer described. The caller
		// does not learn of this.
		if err := p.endInto(ctx, r.op, m); !errors.Is(err, errWithdrawn) {
			return err
		}
		*m = Message{}
	}
}

// StartRecv starts a Recv and does not wait. ErrQueueFull: all contexts are taken. The caller
// must not use buf until the operation is done.
func (p *Process) StartRecv(from Dest, match Match, buf []byte) (*Op, error) {
	return started(func(o *Op) error { return p.StartRecvInto(o, from, match, buf) })
}

// StartRecvInto is StartRecv with an Op that is new or done, so it allocates nothing.
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

// Call sends a message and receives the reply into reply. The Message describes the reply; its
// Tag is 0. As with Recv, a reply that is longer than reply gives ErrTruncated. The receive is
// posted before the message. By the straight way it is posted after the message, but before the
// NIC takes in any frame. So the reply always finds it. A message may be refused after it counted
// as sent, and then has no reply. In this case Call ends with ctx, or with the end of the process
// that it called.
func (p *Process) Call(ctx context.Context, to Dest, tag uint64, reply []byte, parts ...[]byte) (Message, error) {
	m, err, ok := p.callStraight(ctx, &to, tag, reply, parts)
	if !ok {
		m, err = p.callLong(ctx, to, tag, reply, parts)
	}
	m.Tag = 0 // otherwise it would be the token
	return m, err
}

// callLong is Call with two contexts.
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
		p.cancel(r.op, false) // no reply will come, unless the message left nevertheless
		if m, late := p.end(ctx, r.op); late == nil {
			return m, nil
		}
		return Message{}, err
	}
	return p.end(ctx, r.op)
}
