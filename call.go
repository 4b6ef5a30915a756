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
// first. In that case the NIC tells the called process's NIC that the caller has given up: a later
// Reply fails with [ErrCancelled], and a request that has not arrived is discarded, as is a reply
// that arrives later. The Message describes the reply; its Tag is 0.
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

// Reply answers a message that was sent by Call. It goes to the one process that called. No error
// means that the reply has left, not that the caller has received it.
//
// A call takes one reply. A second Reply fails with [ErrBadArgument], also for a copy of the Message
// and while the first Reply still runs. After a Reply that failed, the call may be answered again.
// The process recognizes a second Reply to any of the 32,736 calls that it received last. For an
// older call it leaves, and the caller's NIC discards it.
//
// A failed Reply affects only this caller. [ErrCancelled] means that the caller has given up,
// [ErrProcessGone] that it has ended, and [ErrUnreachable] that its NIC is silent. [ErrBadArgument]
// also means that the message is no call, or that only a Probe has reported it: receive it first.
//
// If the caller is on the same NIC, Reply always knows that it has given up. From another NIC the
// news takes one way through the network. A reply of up to 16 KiB that leaves before the news
// arrives is lost, and Reply returns nil. A NIC remembers, for each pair of a process and another
// NIC, the last 1,024 calls that were given up.
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
