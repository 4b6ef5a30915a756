package bench

import (
	"context"

	"github.com/weftnet/weft"
)

// exchange is one side of an exchange of single messages with a peer. Between two processes of
// one daemon, it posts the receive of the next message together with the send of the previous
// one, as a program that wants low latency does. So an answer finds its receive, and the process
// need not wait until the daemon sees the receive. Over a network there is time for that while
// the message is in flight. An embedded NIC needs no receive: Recv takes a message from the link
// itself.
type exchange struct {
	p      *weft.Process
	peer   weft.Name
	tag    weft.Tag // of received messages
	ahead  bool
	posted bool
	out    weft.Op
	in     weft.Op
}

// newExchange returns the side of p in an exchange with a peer at the address at.
func newExchange(p *weft.Process, peer weft.Name, at weft.Address, tag weft.Tag) *exchange {
	return &exchange{p: p, peer: peer, tag: tag, ahead: p.NIC() == nil && p.Address().NIC == at.NIC}
}

// post posts the receive of the next message, into buf.
func (x *exchange) post(buf []byte) error {
	err := x.p.StartRecv(&x.in, x.peer, x.tag, buf)
	x.posted = err == nil
	return err
}

// send sends data. If the receive of the next message is posted ahead, that message goes into
// buf.
func (x *exchange) send(ctx context.Context, data, buf []byte) error {
	if x.ahead {
		return x.sendAhead(ctx, data, buf)
	}
	return x.p.Send(ctx, x.peer, tagData, data)
}

// sendAhead sends data first, and then posts the receive of the next message, into buf.
func (x *exchange) sendAhead(ctx context.Context, data, buf []byte) error {
	if err := x.p.Peer(x.peer).StartSend(&x.out, tagData, data); err != nil {
		return err
	}
	posted := x.post(buf)
	if _, err := x.out.Wait(ctx); err != nil {
		x.out.Cancel()
		_, _ = x.out.Wait(context.Background()) // a cancelled operation ends
		return err
	}
	return posted
}

// recv waits for the next message: that of the posted receive, or else one into buf. It sets m
// instead of returning a Message, because another copy of a Message shows in 64-byte round
// trips.
func (x *exchange) recv(ctx context.Context, buf []byte, m *weft.Message) (err error) {
	if !x.posted {
		*m, err = x.p.Recv(ctx, x.peer, x.tag, buf)
		return err
	}
	if *m, err = x.in.Wait(ctx); err == nil {
		x.posted = false
	}
	return err
}

// cancel withdraws a posted receive, and waits until its memory is no longer in use.
func (x *exchange) cancel() {
	if x.posted {
		x.in.Cancel()
		_, _ = x.in.Wait(context.Background()) // a cancelled operation ends
		x.posted = false
	}
}
