package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
)

// Op is an operation under way. Its memory belongs to the NIC until it is done. The zero Op is for the forms whose name
// ends in Into, such as [Process.StartSendInto]. It must not be copied.
// One that no start form has begun ends at once with [ErrBadArgument].
type Op struct {
	o     proc.Op
	names *nameCache // of its process
}

// Wait waits for the end of the operation and returns how it ended. If ctx ends first, Wait returns its error and the
// operation goes on: Wait again, or Cancel it. Of a receive the Message tells what came.
func (o *Op) Wait(ctx context.Context) (m Message, err error) {
	if !o.o.Begun() {
		return m, notBegun("wait")
	}
	pm, err := o.o.Result(ctx)
	if pm != nil {
		m.set(o.names, pm)
	}
	return m, err
}

// Test reports whether the operation is done and, if so, how it ended. It does not wait.
func (o *Op) Test() (m Message, done bool, err error) {
	if !o.o.Begun() {
		return m, true, notBegun("test")
	}
	done, pm, err := o.o.Test()
	m.set(o.names, &pm)
	return m, done, err
}

// Ended reports whether the operation has ended, so that Wait returns at once. It takes no lock: the ready of a
// [Process.WaitUntil] may ask it, as long as nothing begins the operation anew meanwhile. An Op that no start form has begun has ended.
func (o *Op) Ended() bool { return !o.o.Begun() || o.o.Ended() }

// Cancel withdraws the operation, if it is not too late for that. It is done soon in either case.
func (o *Op) Cancel() {
	if o.o.Begun() {
		o.o.Cancel()
	}
}

func notBegun(what string) error {
	return &OpError{Op: what, Err: fmt.Errorf("%w: an Op that no start form has begun", ErrBadArgument)}
}

// StartSend begins what Send does, and does not wait. It fails with [ErrQueueFull] when too many operations are under
// way. The parts must stay as they are until the operation is done.
func (p *port) StartSend(to Name, tag Tag, parts ...[]byte) (*Op, error) {
	return started(func(o *Op) error { return p.StartSendInto(o, to, tag, parts...) })
}

// StartSendInto is StartSend that uses an Op again, new or done, so that nothing is allocated.
func (p *port) StartSendInto(o *Op, to Name, tag Tag, parts ...[]byte) error {
	d, err := p.to("send", to, tag)
	if err != nil {
		return err
	}
	return p.owns(o, p.p.StartSendInto(&o.o, d, p.base|uint64(tag), parts...))
}

// StartSendDelivered begins what SendDelivered does.
func (p *port) StartSendDelivered(to Name, tag Tag, parts ...[]byte) (*Op, error) {
	return started(func(o *Op) error { return p.StartSendDeliveredInto(o, to, tag, parts...) })
}

// StartSendDeliveredInto is StartSendDelivered that uses an Op again, new or done, so that nothing is allocated.
func (p *port) StartSendDeliveredInto(o *Op, to Name, tag Tag, parts ...[]byte) error {
	d, err := p.to("send", to, tag)
	if err != nil {
		return err
	}
	return p.owns(o, p.p.StartSendDeliveredInto(&o.o, d, p.base|uint64(tag), parts...))
}

// StartRecv begins what Recv does. buf must be left alone until the operation is done. At a daemon as many receives may be under way at a time as
// the process has contexts, 64 by default ([Geometry]), those of blocking forms and what inboxes keep among them; one more fails with
// [ErrQueueFull]. A process whose NIC is in the same program has no such bound.
func (p *port) StartRecv(from Name, tag Tag, buf []byte) (*Op, error) {
	return started(func(o *Op) error { return p.StartRecvInto(o, from, tag, buf) })
}

// StartRecvInto is StartRecv that uses an Op again, new or done, so that nothing is allocated.
func (p *port) StartRecvInto(o *Op, from Name, tag Tag, buf []byte) error {
	d, match, err := p.source("receive", from, tag)
	if err != nil {
		return err
	}
	return p.owns(o, p.p.StartRecvInto(&o.o, d, match, buf))
}

// StartPut begins what Put does.
func (p *Process) StartPut(h Handle, offset int, parts ...[]byte) (*Op, error) {
	return started(func(o *Op) error { return p.StartPutInto(o, h, offset, parts...) })
}

// StartPutInto is StartPut that uses an Op again, new or done, so that nothing is allocated.
func (p *Process) StartPutInto(o *Op, h Handle, offset int, parts ...[]byte) error {
	if offset < 0 {
		return badOffset("put", offset)
	}
	return p.owns(o, p.p.StartPutInto(&o.o, h.proc(), uint64(offset), parts...))
}

// StartGet begins what Get does. buf must be left alone until the operation is done.
func (p *Process) StartGet(h Handle, offset int, buf []byte) (*Op, error) {
	return started(func(o *Op) error { return p.StartGetInto(o, h, offset, buf) })
}

// StartGetInto is StartGet that uses an Op again, new or done, so that nothing is allocated.
func (p *Process) StartGetInto(o *Op, h Handle, offset int, buf []byte) error {
	if offset < 0 {
		return badOffset("get", offset)
	}
	return p.owns(o, p.p.StartGetInto(&o.o, h.proc(), uint64(offset), buf))
}

// owns notes of which process the operation o is, if it has begun.
func (p *port) owns(o *Op, err error) error {
	if err == nil {
		o.names = p.names
	}
	return err
}

// started makes an Op for a start form.
func started(begin func(*Op) error) (*Op, error) {
	o := new(Op)
	if err := begin(o); err != nil {
		return nil, err
	}
	return o, nil
}
