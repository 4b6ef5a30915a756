package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Op holds an operation that a start form has begun. A start form, such as [Peer.StartSend], is a
// method that begins an operation and returns without waiting for the end of the operation. The
// zero Op is ready for use. When the operation is done, the same Op may be used for another
// operation. A start form allocates no memory. The NIC owns the buffers of an operation until the
// operation is done. An Op must not be copied.
//
// A start form fails with [ErrQueueFull] if too many operations are in flight. It fails with
// [ErrBadArgument] if the Op is still in flight, or if another process has used the Op.
type Op struct {
	o     proc.Op
	names *nameCache // of the process of o
}

// Wait waits until the operation is done, and returns its error. For a receive, Wait also returns
// the Message. If ctx ends first, Wait returns ctx's error and the operation continues: call Wait
// again, or cancel the operation. Wait fails with [ErrBadArgument] if no start form has begun an
// operation with the Op.
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

// Test reports whether the operation is done. If it is done, Test also returns the results of
// [Op.Wait]. Test never waits.
func (o *Op) Test() (m Message, done bool, err error) {
	if !o.o.Begun() {
		return m, true, notBegun("test")
	}
	done, pm, err := o.o.Test()
	m.set(o.names, &pm)
	return m, done, opError(err)
}

// Ended reports whether the operation is done, that is, whether [Op.Wait] would return at once.
// Ended takes no lock, so a function given to [Runtime.WaitUntil] may call it. While Ended runs, no
// start form may use the Op. Ended also returns true if no start form has begun an operation with
// the Op.
func (o *Op) Ended() bool { return !o.o.Begun() || o.o.Ended() }

// Cancel withdraws the operation if the operation can still be withdrawn. A withdrawn operation
// fails with [ErrCancelled]. Whether it was withdrawn or not, the operation is done soon.
func (o *Op) Cancel() {
	if o.o.Begun() {
		o.o.Cancel()
	}
}

func notBegun(what string) error {
	return &OpError{Op: what, Err: fmt.Errorf("%w: an Op that no start form has begun", ErrBadArgument)}
}

// StartSend begins a [Peer.Send] and does not wait for its end. The parts must not change until op
// is done.
func (r Peer) StartSend(op *Op, tag Tag, parts ...[]byte) error {
	d, word, err := r.receiver("send", tag)
	if err != nil {
		return err
	}
	return r.p.begun(op, r.p.p.StartSendInto(&op.o, d, word, parts...))
}

// StartSendDelivered begins a [Peer.SendDelivered] and does not wait for its end. The parts must
// not change until op is done.
func (r Peer) StartSendDelivered(op *Op, tag Tag, parts ...[]byte) error {
	d, word, err := r.receiver("send", tag)
	if err != nil {
		return err
	}
	return r.p.begun(op, r.p.p.StartSendDeliveredInto(&op.o, d, word, parts...))
}

// StartRecv begins a [Process.Recv] and does not wait for its end. The NIC owns buf until op is
// done.
//
// With a daemon, at most [Geometry].Contexts receives may be in flight, 64 by default. This number
// includes blocking receives and Inboxes. If that many receives are already in flight, StartRecv
// fails with [ErrQueueFull]. A process with an embedded NIC has no such limit.
func (p *port) StartRecv(op *Op, sender Name, tag Tag, buf []byte) error {
	return p.Peer(sender).StartRecv(op, tag, buf)
}

// StartRecv begins a [Peer.Recv] and does not wait for its end. The limit on receives in flight is
// the same as for [Process.StartRecv]. The NIC owns buf until op is done.
func (r Peer) StartRecv(op *Op, tag Tag, buf []byte) error {
	d, match, err := r.source("receive", tag)
	if err != nil {
		return err
	}
	return r.p.begun(op, r.p.p.StartRecvInto(&op.o, d, match, buf))
}

// StartPut begins a [Process.Put] and does not wait for its end. The parts must not change until op
// is done.
func (p *Process) StartPut(op *Op, h Handle, offset int, parts ...[]byte) error {
	if offset < 0 {
		return badOffset("put", offset)
	}
	return p.begun(op, p.p.StartPutInto(&op.o, h.proc(), uint64(offset), parts...))
}

// StartGet begins a [Process.Get] and does not wait for its end. The NIC owns buf until op is done.
func (p *Process) StartGet(op *Op, h Handle, offset int, buf []byte) error {
	if offset < 0 {
		return badOffset("get", offset)
	}
	return p.begun(op, p.p.StartGetInto(&op.o, h.proc(), uint64(offset), buf))
}

// begun completes a start form: it gives the Op the name cache of the process, which the Message of
// the result needs. It returns err in its public form.
func (p *port) begun(op *Op, err error) error {
	if err == nil {
		op.names = p.names
	}
	return opError(err)
}
