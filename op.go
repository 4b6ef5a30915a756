package weft

import (
	"context"

	"github.com/weftnet/weft/internal/proc"
)

// Op is an operation under way. Its memory belongs to the NIC until it is done.
type Op struct{ o *proc.Op }

// Wait waits for the end of the operation and returns how it ended. If ctx ends first, Wait returns its error and the
// operation goes on: Wait again, or Cancel it. Of a receive the Message tells what came.
func (o *Op) Wait(ctx context.Context) (Message, error) {
	m, err := o.o.Wait(ctx)
	return messageOf(m), err
}

// Test reports whether the operation is done and, if so, how it ended. It does not wait.
func (o *Op) Test() (m Message, done bool, err error) {
	done, pm, err := o.o.Test()
	return messageOf(pm), done, err
}

// Cancel withdraws the operation, if it is not too late for that. It is done soon in either case.
func (o *Op) Cancel() { o.o.Cancel() }

// StartSend begins what Send does, and does not wait. It fails with [ErrQueueFull] when too many operations are under
// way. The parts must stay as they are until the operation is done.
func (p *Process) StartSend(to Name, tag Tag, parts ...[]byte) (*Op, error) {
	d, err := p.to("send", to, tag)
	if err != nil {
		return nil, err
	}
	return started(p.p.StartSend(d, uint64(tag), parts...))
}

// StartSendDelivered begins what SendDelivered does.
func (p *Process) StartSendDelivered(to Name, tag Tag, parts ...[]byte) (*Op, error) {
	d, err := p.to("send", to, tag)
	if err != nil {
		return nil, err
	}
	return started(p.p.StartSendDelivered(d, uint64(tag), parts...))
}

// StartRecv begins what Recv does. buf must be left alone until the operation is done.
func (p *Process) StartRecv(from Name, tag Tag, buf []byte) (*Op, error) {
	d, err := p.from("receive", from)
	if err != nil {
		return nil, err
	}
	return started(p.p.StartRecv(d, match(tag), buf))
}

// StartPut begins what Put does.
func (p *Process) StartPut(h Handle, offset int, parts ...[]byte) (*Op, error) {
	if offset < 0 {
		return nil, badOffset("put", offset)
	}
	return started(p.p.StartPut(h.proc(), uint64(offset), parts...))
}

// StartGet begins what Get does. buf must be left alone until the operation is done.
func (p *Process) StartGet(h Handle, offset int, buf []byte) (*Op, error) {
	if offset < 0 {
		return nil, badOffset("get", offset)
	}
	return started(p.p.StartGet(h.proc(), uint64(offset), buf))
}

func started(o *proc.Op, err error) (*Op, error) {
	if err != nil {
		return nil, err
	}
	return &Op{o}, nil
}
