package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Op is one operation in flight, begun by a start form such as [Peer.StartSend]. The zero Op is
// ready for use, and one that is done can be used again, so a start form allocates nothing. The
// memory of the operation belongs to the NIC until the Op is done. An Op must not be copied.
//
// A start form fails with [ErrQueueFull] if too many operations are in flight, and with
// [ErrBadArgument] if its Op is in flight or belongs to another process.
type Op struct {
	o     proc.Op
	names *nameCache // of its process
}

// Wait waits until the operation is done, and returns its error and, if it is a receive, its
// Message. If ctx ends first, Wait returns ctx's error and the operation goes on: wait again, or
// cancel it. Wait fails with [ErrBadArgument] if no start form has begun the Op.
func (o *Op) Wait(ctx context.Context) (m Message, err error) {
	if !o.o.Begun() {
		return m, notBegun("wait")
	}
	pm, err := o.o.Result(ctx)
	if pm != nil {
		m.set(o.names, pm)
	}
	return m, opError(err)
}

// Test reports whether the operation is done and, if so, its result. It does not wait.
func (o *Op) Test() (m Message, done bool, err error) {
	if !o.o.Begun() {
		return m, true, notBegun("test")
	}
	done, pm, err := o.o.Test()
	m.set(o.names, &pm)
	return m, done, opError(err)
}

// Ended reports whether the operation is done, so that Wait would return at once. It takes no lock:
// a ready function of [Runtime.WaitUntil] may call it while no start form uses the Op. It returns
// true if no start form has begun the Op.
func (o *Op) Ended() bool { return !o.o.Begun() || o.o.Ended() }

// Cancel withdraws the operation if it is not too late. The operation is done soon in either case;
// a withdrawn one ends with [ErrCancelled].
func (o *Op) Cancel() {
	if o.o.Begun() {
		o.o.Cancel()
	}
}

func notBegun(what string) error {
	return &OpError{Op: what, Err: fmt.Errorf("%w: an Op that no start form has begun", ErrBadArgument)}
}

// StartSend begins a [Peer.Send] and does not wait. The parts must not change until op is done.
func (r Peer) StartSend(op *Op, tag Tag, parts ...[]byte) error {
	d, word, err := r.receiver("send", tag)
	if err != nil {
		return err
	}
	return r.p.begun(op, r.p.p.StartSendInto(&op.o, d, word, parts...))
}

// StartSendDelivered begins a [Peer.SendDelivered] and does not wait. The parts must not change
// until op is done.
func (r Peer) StartSendDelivered(op *Op, tag Tag, parts ...[]byte) error {
	d, word, err := r.receiver("send", tag)
	if err != nil {
		return err
	}
	return r.p.begun(op, r.p.p.StartSendDeliveredInto(&op.o, d, word, parts...))
}

// StartRecv begins a [Process.Recv] and does not wait. The NIC owns buf until op is done.
//
// With a daemon at most [Geometry].Contexts receives may be in flight, 64 by default. Blocking
// receives and Inboxes count too; one receive more fails with [ErrQueueFull]. A process with an
// embedded NIC has no such limit.
func (p *port) StartRecv(op *Op, from Name, tag Tag, buf []byte) error {
	return p.Peer(from).StartRecv(op, tag, buf)
}

// StartRecv begins a [Peer.Recv] and does not wait, as [Process.StartRecv] does.
func (r Peer) StartRecv(op *Op, tag Tag, buf []byte) error {
	d, match, err := r.source("receive", tag)
	if err != nil {
		return err
	}
	return r.p.begun(op, r.p.p.StartRecvInto(&op.o, d, match, buf))
}

// StartPut begins a [Process.Put] and does not wait. The parts must not change until op is done.
func (p *Process) StartPut(op *Op, h Handle, offset int, parts ...[]byte) error {
	if offset < 0 {
		return badOffset("put", offset)
	}
	return p.begun(op, p.p.StartPutInto(&op.o, h.proc(), uint64(offset), parts...))
}

// StartGet begins a [Process.Get] and does not wait. The NIC owns buf until op is done.
func (p *Process) StartGet(op *Op, h Handle, offset int, buf []byte) error {
	if offset < 0 {
		return badOffset("get", offset)
	}
	return p.begun(op, p.p.StartGetInto(&op.o, h.proc(), uint64(offset), buf))
}

// begun gives an Op that has begun the names of its process, for the Message of its result.
func (p *port) begun(op *Op, err error) error {
	if err == nil {
		op.names = p.names
	}
	return opError(err)
}
