package bench

import (
	"context"

	"github.com/weftnet/weft"
)

// exchange is one side of an exchange of single messages with a peer. Between two processes of one daemon the receive of the next message is
// posted together with the send of the one before, as a program does that wants latency: so an answer finds its place, and the process need
// not wait for the daemon to hear of the receive. Over a network there is time for that while the message is on its way, and a NIC in the
// process needs no receive: Recv takes what comes from the link itself.
type exchange struct {
	p      *weft.Process
	peer   weft.Name
	tag    weft.Tag // of what is received
	ahead  bool
	posted bool
	out    weft.Op
	in     weft.Op
}

// newExchange makes the side of p with a peer that is at the address at.
func newExchange(p *weft.Process, peer weft.Name, at weft.Address, tag weft.Tag) *exchange {
	return &exchange{p: p, peer: peer, tag: tag, ahead: p.NIC() == nil && p.Address().NIC == at.NIC}
}

// post posts the receive of the next message, into buf.
func (x *exchange) post(buf []byte) error {
	err := x.p.StartRecv(&x.in, x.peer, x.tag, buf)
	x.posted = err == nil
	return err
}

// send sends data. buf is where the next message goes, if its receive is posted ahead.
func (x *exchange) send(ctx context.Context, data, buf []byte) error {
	if x.ahead {
		return x.sendAhead(ctx, data, buf)
	}
	return x.p.Send(ctx, x.peer, tagData, data)
}

// sendAhead sends data, and posts the receive of the next message, into buf. The message is on its way first.
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

// recv waits for the next message: that of the receive that is posted, or else one into buf. It sets m, because to
// return a Message costs another copy of it, which 64-byte round trips show.
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

// cancel withdraws a receive that is posted, and waits until its memory is in use no more.
func (x *exchange) cancel() {
	if x.posted {
		x.in.Cancel()
		_, _ = x.in.Wait(context.Background()) // a cancelled operation ends
		x.posted = false
	}
}
