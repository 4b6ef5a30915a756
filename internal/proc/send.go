package proc

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/vni"
)

// Send sends a message, the concatenation of parts, to a process. It returns when the parts may be reused: the
// message leaves, or has left. With an error it was delivered zero or one time, never more (decision 6). If ctx ends
// first, the message is withdrawn, unless it is too late for that: then Send succeeds.
func (p *Process) Send(ctx context.Context, to Dest, tag uint64, parts ...[]byte) error {
	return p.send(ctx, "send", to, tag, 0, parts)
}

// SendMany sends messages to one process, each as Send does, in their order, and returns how many were sent: fewer than all
// with the error of the next.
func (p *Process) SendMany(ctx context.Context, to Dest, tag uint64, messages [][]byte) (sent int, err error) {
	for sent < len(messages) {
		if err := ctx.Err(); err != nil && sent > 0 {
			return sent, &OpError{Op: "send", Peer: to.Name, NIC: to.NIC, Err: err}
		}
		n := p.sendManyStraight(to, tag, messages[sent:])
		if sent += n; n > 0 {
			continue
		}
		if err := p.Send(ctx, to, tag, messages[sent]); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// SendDelivered is Send that returns when the destination NIC has accepted the message, which is then delivered for
// certain unless the destination process or its NIC ends. ErrTruncated: it met a receive that keeps only its beginning.
func (p *Process) SendDelivered(ctx context.Context, to Dest, tag uint64, parts ...[]byte) error {
	return p.send(ctx, "send", to, tag, vni.WantAccept, parts)
}

// Reply answers a message whose sender has used Call. It goes to the very process that called: if that has ended, or
// another has its slot, Reply fails.
func (p *Process) Reply(ctx context.Context, m *Message, parts ...[]byte) error {
	if !m.IsCall() {
		return &OpError{Op: "reply", Peer: m.From, NIC: m.NIC, Err: errNoCall}
	}
	return p.send(ctx, "reply", m.Source(), uint64(m.Token), vni.IsReply, parts)
}

var errNoCall = fmt.Errorf("%w: the sender awaits no reply", ErrBadArgument)

func (p *Process) send(ctx context.Context, what string, to Dest, tag uint64, flags uint32, parts [][]byte) error {
	if flags == 0 && p.sendStraight(to, tag, parts, false) {
		return nil
	}
	r := request{what: what, code: vni.CodeSend, with: to, waits: true}
	parts, err := p.sendRequest(&r, tag, flags, parts)
	if err != nil {
		return r.fail(err)
	}
	return p.run(ctx, &r, parts)
}

// StartSend begins what Send does, and does not wait: ErrQueueFull if all contexts are taken. The parts must stay as
// they are until the operation is done.
func (p *Process) StartSend(to Dest, tag uint64, parts ...[]byte) (*Op, error) {
	return started(func(o *Op) error { return p.startSend(o, to, tag, 0, parts) })
}

// StartSendDelivered begins what SendDelivered does.
func (p *Process) StartSendDelivered(to Dest, tag uint64, parts ...[]byte) (*Op, error) {
	return started(func(o *Op) error { return p.startSend(o, to, tag, vni.WantAccept, parts) })
}

// StartSendDeliveredInto is StartSendDelivered with an Op as StartSendInto has it.
func (p *Process) StartSendDeliveredInto(o *Op, to Dest, tag uint64, parts ...[]byte) error {
	return p.startSend(o, to, tag, vni.WantAccept, parts)
}

// StartSendInto is StartSend that uses an Op again, new or done, so that nothing is allocated.
func (p *Process) StartSendInto(o *Op, to Dest, tag uint64, parts ...[]byte) error {
	return p.startSend(o, to, tag, 0, parts)
}

func (p *Process) startSend(o *Op, to Dest, tag uint64, flags uint32, parts [][]byte) error {
	if flags == 0 && o.free(p) && p.sendStraight(to, tag, parts, true) {
		o.begin(p)
		o.done.Store(true)
		return nil
	}
	r := request{what: "send", code: vni.CodeSend, with: to}
	parts, err := p.sendRequest(&r, tag, flags, parts)
	if err != nil {
		return r.fail(err)
	}
	return p.startOp(o, &r, parts)
}

func (p *Process) sendRequest(r *request, tag uint64, flags uint32, parts [][]byte) ([][]byte, error) {
	if r.with.NIC == 0 && !r.with.Name.Valid() {
		return nil, errNobody
	}
	// Field by field, here and where messages are received: see vni's load.
	r.send.Receiver, r.send.Gen, r.send.NIC, r.send.Slot = r.with.Name, r.with.Gen, r.with.NIC, r.with.Slot
	r.send.Tag, r.send.Flags = tag, flags
	return p.gather(r, parts)
}

var errNobody = fmt.Errorf("%w: the name is empty or malformed", ErrBadArgument)

// started makes an Op for a start form.
func started(begin func(*Op) error) (*Op, error) {
	o := new(Op)
	if err := begin(o); err != nil {
		return nil, err
	}
	return o, nil
}

// startOp begins r as an operation of its own.
func (p *Process) startOp(o *Op, r *request, parts [][]byte) error {
	if !o.free(p) {
		return r.fail(errBusy)
	}
	o.begin(p)
	r.own = o
	l, err := p.start(parts, r)
	if l != lackNothing {
		err = ErrQueueFull
	}
	if err != nil {
		o.err = r.fail(err)
		o.done.Store(true)
		return o.err
	}
	return nil
}

// free reports whether the Op of a start form may be used: it is new, or p's and done.
func (o *Op) free(p *Process) bool { return o.p == nil || o.p == p && o.done.Load() }

// begin makes an Op that is free one that is under way.
func (o *Op) begin(p *Process) {
	if o.p == nil {
		o.p, o.ready = p, o.settled
	}
	o.msg, o.err, o.straight = Message{}, nil, false
	o.done.Store(false)
}

var errBusy = fmt.Errorf("%w: the Op is under way, or another process's", ErrBadArgument)

// fail says what could not even begin.
func (r *request) fail(err error) error {
	return &OpError{Op: r.what, Peer: r.with.Name, NIC: r.with.NIC, Err: err}
}
