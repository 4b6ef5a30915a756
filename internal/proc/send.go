package proc

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weftnet/weft/internal/limits"

	"github.com/weftnet/weft/internal/vni"
)

// Send sends a message, the concatenation of parts, to a process. It returns when the parts may
// be reused: the message is leaving, or has left. If Send fails, the message was delivered at
// most once (decision 6). If ctx ends first, the NIC withdraws the message. If it is too late for
// that, Send succeeds.
func (p *Process) Send(ctx context.Context, to Dest, tag uint64, parts ...[]byte) error {
	return p.send(ctx, "send", to, tag, 0, parts)
}

// TrySend sends a message if the NIC can take or copy it at once, and reports whether it did. If
// it returns false, nothing was sent.
func (p *Process) TrySend(to Dest, tag uint64, parts ...[]byte) bool {
	return p.sendStraight(to, tag, parts, 0, false)
}

// SendMany sends messages to one process in their order, each as Send does. It returns the number
// of sent messages. If that is not all of them, it also returns the error of the next one.
func (p *Process) SendMany(ctx context.Context, to Dest, tag uint64, messages [][]byte) (sent int, err error) {
	// alone counts messages that are sent one by one after runs that failed. Each attempt of a
	// run costs a command.
	alone, inVain := 0, 0
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

// mostAlone is the largest number of messages that a SendMany sends one by one before it tries a
// run again.
const mostAlone = 255

// sendRun sends the first of the messages by one command, as many as a run may have. It returns
// how many have left. If there is no credit for a message, that message must wait by a Send.
func (p *Process) sendRun(ctx context.Context, to Dest, tag uint64, messages [][]byte) (sent int, err error) {
	if p.direct {
		return 0, nil
	}
	n, bytes := 0, 0
	for n < min(len(messages), limits.RunMessages) && len(messages[n]) <= limits.CopiedMessage &&
		bytes+len(messages[n])+2 <= limits.RunBytes {
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

// packRun lays out messages in the form that a SendRun needs.
func packRun(mem []byte, messages [][]byte) {
	lengths, data := mem, mem[2*len(messages):]
	for _, m := range messages {
		binary.LittleEndian.PutUint16(lengths, uint16(len(m)))
		lengths = lengths[2:]
		data = data[copy(data, m):]
	}
}

// SendDelivered is Send that returns when the destination NIC has accepted the message and all
// earlier ones. The message is then delivered for certain, unless the destination process or its
// NIC ends. ErrTruncated: the message met a receive that keeps only its beginning.
func (p *Process) SendDelivered(ctx context.Context, to Dest, tag uint64, parts ...[]byte) error {
	return p.send(ctx, "send", to, tag, vni.WantAccept, parts)
}

// Reply answers a message that was sent by Call. It goes only to the process that called. Reply
// fails if that process is known to have ended, if another process has its slot, or if the NIC
// knows that the caller no longer waits. Once a short reply has left, its failure is not
// reported. A call is answered once: a second Reply is refused, unless the first one has failed.
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

// StartSend starts a Send and does not wait. ErrQueueFull: all contexts are taken. The parts must
// stay unchanged until the operation is done.
func (p *Process) StartSend(to Dest, tag uint64, parts ...[]byte) (*Op, error) {
	return started(func(o *Op) error { return p.startSend(o, to, tag, 0, parts) })
}

// StartSendDelivered starts a SendDelivered and does not wait.
func (p *Process) StartSendDelivered(to Dest, tag uint64, parts ...[]byte) (*Op, error) {
	return started(func(o *Op) error { return p.startSend(o, to, tag, vni.WantAccept, parts) })
}

// StartSendDeliveredInto is StartSendDelivered with an Op, like StartSendInto.
func (p *Process) StartSendDeliveredInto(o *Op, to Dest, tag uint64, parts ...[]byte) error {
	return p.startSend(o, to, tag, vni.WantAccept, parts)
}

// StartSendInto is StartSend with an Op that is new or done, so it allocates nothing.
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
	// Copy field by field, here and where messages are received: see vni's load.
	r.send.Receiver, r.send.Gen, r.send.NIC, r.send.Slot = r.with.Name, r.with.Gen, r.with.NIC, r.with.Slot
	r.send.Tag, r.send.Flags = tag, flags
	return p.gather(r, parts)
}

var errNobody = fmt.Errorf("%w: the name is empty or malformed", ErrBadArgument)

// started creates an Op for a start form.
func started(begin func(*Op) error) (*Op, error) {
	o := new(Op)
	if err := begin(o); err != nil {
		return nil, err
	}
	return o, nil
}

// startOp begins r with its own Op.
func (p *Process) startOp(o *Op, r *request, parts [][]byte) error {
	if !o.free(p) {
		return r.fail(errBusy)
	}
	if p.closed.Load() { // then Close may still access o, from its earlier use
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

// free reports whether a start form may use the Op: it is new, or it is p's and done. The
// goroutine that settled it, which may be another one because of reclaim, has then released it.
func (o *Op) free(p *Process) bool {
	if o.p != p {
		return o.p == nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done.Load()
}

// begin marks a free Op as in flight.
func (o *Op) begin(p *Process) {
	if o.p == nil {
		o.p, o.ready = p, o.settled
	}
	o.msg, o.err, o.straight = Message{}, nil, false
	o.done.Store(false)
}

var errBusy = fmt.Errorf("%w: the Op is under way, or another process's", ErrBadArgument)

// fail returns the error of an operation that could not begin.
func (r *request) fail(err error) error {
	return &OpError{Op: r.what, Peer: r.with.Name, NIC: r.with.NIC, Slot: r.with.Slot, Gen: r.with.Gen, Err: err}
}
