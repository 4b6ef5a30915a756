package bench

import (
	"context"

	"github.com/weftnet/weft"
)

// receiver takes the messages of an exchange, one at a time. With a daemon each receive is posted before the message that is answered by what
// comes, as a program does that wants latency: so an answer finds its place, and nobody waits for the daemon to learn of it. A NIC in the
// process needs no receive for that: Recv takes what comes from the link itself.
type receiver struct {
	p      *weft.Process
	from   weft.Name
	tag    weft.Tag
	ahead  bool
	posted bool
	op     weft.Op
}

func newReceiver(p *weft.Process, from weft.Name, tag weft.Tag) *receiver {
	return &receiver{p: p, from: from, tag: tag, ahead: p.NIC() == nil}
}

// post posts the receive of the next message, into buf.
func (r *receiver) post(buf []byte) error {
	err := r.p.StartRecvInto(&r.op, r.from, r.tag, buf)
	r.posted = err == nil
	return err
}

// expect posts the receive of the next message, into buf, if that is worth it.
func (r *receiver) expect(buf []byte) error {
	if !r.ahead {
		return nil
	}
	return r.post(buf)
}

// receive takes the next message into buf: that of the receive, if one is posted.
func (r *receiver) receive(ctx context.Context, buf []byte) (weft.Message, error) {
	if !r.posted {
		return r.p.Recv(ctx, r.from, r.tag, buf)
	}
	m, err := r.op.Wait(ctx)
	if err == nil {
		r.posted = false
	}
	return m, err
}

// cancel withdraws a receive that is posted, and waits until its memory is in use no more.
func (r *receiver) cancel() {
	if r.posted {
		r.op.Cancel()
		_, _ = r.op.Wait(context.Background()) // a cancelled operation ends
		r.posted = false
	}
}
