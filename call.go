package weft

import (
	"context"

	"github.com/weftnet/weft/internal/proc"
)

// Call sends a request and waits for the reply, which it receives into reply. The called process
// receives an ordinary message whose [Message.IsCall] is true, and answers it by [Process.Reply].
//
// If Call fails, the request was delivered once or not at all. It fails with [ErrProcessGone] or
// [ErrUnreachable] if the called process ends or its NIC falls silent, with [ErrTruncated] if the
// reply is longer than the buffer, which then holds its beginning, and with ctx's error if ctx ends
// first. Call drops a reply that comes later. The Message describes the reply; its Tag is 0.
func (r Peer) Call(ctx context.Context, tag Tag, request, reply []byte) (m Message, err error) {
	if err := ended(ctx, "call"); err != nil {
		return m, err
	}
	d, word, err := r.receiver("call", tag)
	if err != nil {
		return m, err
	}
	pm, err := r.p.p.Call(ctx, d, word, reply, request)
	m.set(r.p.names, &pm)
	return m, opError(err)
}

// Reply answers a message that was sent by Call. It goes to the one process that called. A failed
// Reply affects only this caller: [ErrCancelled] means that the caller has given up,
// [ErrProcessGone] that it has ended, [ErrUnreachable] that its NIC is silent, and [ErrBadArgument]
// that the message is no call. As with Send, a reply that has left may still be lost with the
// session.
func (p *port) Reply(ctx context.Context, m Message, parts ...[]byte) error {
	if err := ended(ctx, "reply"); err != nil {
		return err
	}
	if p.closed.Load() {
		return p.badTag("reply", m.Tag)
	}
	pm := proc.Message{NIC: uint64(m.Addr.NIC), Slot: m.Addr.Slot, Gen: m.Addr.Generation, Token: m.token}
	pm.From, _ = m.From.vni() // for the text of an error
	return opError(p.p.Reply(ctx, &pm, parts...))
}
