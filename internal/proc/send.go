package proc

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weftnet/weft/internal/limits"

	"github.com/weftnet/weft/internal/vni"
)

// Send sends a message, the concatenation of parts, to a process. It returns when the parts may be reused: the
// message leaves, or has left. With an error it was delivered zero or one time, never more (decision 6). If ctx ends
// first, the message is withdrawn, unless it is too late for that: then Send succeeds.
func (p *Process) Send(ctx context.Context, to Dest, tag uint64, parts ...[]byte) error {
	return p.send(ctx, "send", to, tag, 0, parts)
}

// TrySend sends a message that the NIC takes, or a copy of it, before TrySend returns, and reports whether it did. Where it did not nothing has left.
func (p *Process) TrySend(to Dest, tag uint64, parts ...[]byte) bool {
	return p.sendStraight(to, tag, parts, 0, false)
}

// SendMany sends messages to one process, each as Send does, in their order, and returns how many were sent: fewer than all
// with the error of the next.
func (p *Process) SendMany(ctx context.Context, to Dest, tag uint64, messages [][]byte) (sent int, err error) {
	alone, inVain := 0, 0 // messages that go by themselves, since runs were tried in vain: each try costs a command
	for sent < len(messages) {
		if err := ctx.Err(); err != nil && sent > 0 {
			return sent, &OpError{Op: "send", Peer: to.Name, NIC: to.NIC, Slot: to.Slot, Gen: to.Gen, Err: err}
		}
		n := p.sendManyStraight(to, tag, messages[sent:])
		if sent += n; n > 0 {
			continue
		}
		if alone--; alone < 0 {
			n, err := p.sendRun(ctx, to, tag, messages[sent:])
			if sent += n; err != nil {
				return sent, err
			}
			if sent == len(messages) {
				break
			}
			if inVain = min(2*inVain+1, mostAlone); n > 0 {
				inVain = 0
			}
			alone = inVain
		}
		if err := p.Send(ctx, to, tag, messages[sent]); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// mostAlone is how many messages of a SendMany go by themselves at most before a run is tried again.
const mostAlone = 255

// sendRun sends the first of some messages by one command, as many as it may have, and returns how many have left: fewer if there was no
// credit for the next, which then waits by a Send.
func (p *Process) sendRun(ctx context.Context, to Dest, tag uint64, messages [][]byte) (sent int, err error) {
	if p.direct {
		return 0, nil
	}
	n, bytes := 0, 0
	for n < min(len(messages), limits.RunMessages) && len(messages[n]) <= limits.CopiedMessage && bytes+len(messages[n])+2 <= limits.RunBytes {
		bytes += len(messages[n]) + 2
		n++
	}
	if n < 2 {
		return 0, nil
	}
	r := request{what: "send", code: vni.CodeSendRun, with: to, size: uint32(n)}
	parts, err := p.sendRequest(&r, tag, 0, nil)
	if err != nil {
		return 0, r.fail(err)
	}
	r.length, r.run = uint64(bytes), messages[:n]
	if err := p.begin(ctx, parts, &r); err != nil {
		return 0, r.fail(err)
	}
	m, err := p.end(ctx, r.op)
	return min(m.Len, n), err
}

// packRun lays messages out as a SendRun wants them.
func packRun(mem []byte, messages [][]byte) {
	lengths, data := mem, mem[2*len(messages):]
	for _, m := range messages {
		binary.LittleEndian.PutUint16(lengths, uint16(len(m)))
		lengths = lengths[2:]
		data = data[copy(data, m):]
	}
}

// SendDelivered is Send that returns when the destination NIC has accepted the message and all before it. It is then delivered for
// certain unless the destination process or its NIC ends. ErrTruncated: it met a receive that keeps only its beginning.
func (p *Process) SendDelivered(ctx context.Context, to Dest, tag uint64, parts ...[]byte) error {
	return p.send(ctx, "send", to, tag, vni.WantAccept, parts)
}

// Reply answers a message whose sender has used Call. It goes to the very process that called: if that is known to have ended, or
// another to have its slot, or if the NIC knows that the caller waits no longer, Reply fails. The end of a short reply that has left is
// not reported. A call is answered once: a second Reply is refused, unless the first has failed.
func (p *Process) Reply(ctx context.Context, m *Message, parts ...[]byte) error {
	why := errNoCall
	switch receipt := m.Token.receipt(); {
	case !m.IsCall():
	case receipt == 0:
		why = errNotReceived
	case !p.answered.take(receipt):
		why = errAnswered
	default:
		err := p.send(ctx, "reply", m.Source(), uint64(m.Token.sent()), vni.IsReply, parts)
		if err != nil {
			p.answered.giveBack(receipt)
		}
		return err
	}
	return &OpError{Op: "reply", Peer: m.From, NIC: m.NIC, Slot: m.Slot, Gen: m.Gen, Err: why}
}

var (
	errNoCall      = fmt.Errorf("%w: the sender awaits no reply", ErrBadArgument)
	errNotReceived = fmt.Errorf("%w: the call was not received; receive it before the reply", ErrBadArgument)
	errAnswered    = fmt.Errorf("%w: the call has been answered already; each call takes one reply", ErrBadArgument)
)

func (p *Process) send(ctx context.Context, what string, to Dest, tag uint64, flags uint32, parts [][]byte) error {
	if (flags == 0 || flags == vni.IsReply) && p.sendStraight(to, tag, parts, flags, false) {
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
	if flags == 0 && o.free(p) && p.sendStraight(to, tag, parts, flags, true) {
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
	if p.closed.Load() { // then Close may still look at o, as it was begun before
		return r.fail(ErrClosed)
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

// free reports whether the Op of a start form may be used: it is new, or p's and done. What has settled it, which is another goroutine
// where reclaim did, has let go of it then.
func (o *Op) free(p *Process) bool {
	if o.p != p {
		return o.p == nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done.Load()
}

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
	return &OpError{Op: r.what, Peer: r.with.Name, NIC: r.with.NIC, Slot: r.with.Slot, Gen: r.with.Gen, Err: err}
}
