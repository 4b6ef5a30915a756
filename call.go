package weft

import (
	"context"

	"github.com/weftnet/weft/internal/proc"
)

// Call sends a request, waits for the reply, and writes the reply into buf. The called process
// receives the request as an ordinary message, for which [Message.IsCall] returns true. The called
// process answers with [Process.Reply]. The Message that Call returns describes the reply. The Tag
// of this Message is 0.
//
// If Call fails, the request was delivered once or not at all. Call fails with one of these errors,
// or with an error of [Peer.Send]:
//
//   - [ErrProcessGone]: the called process has ended.
//   - [ErrUnreachable]: the NIC of the called process is silent.
//   - [ErrTruncated]: the reply is longer than buf. Then buf holds the beginning of the reply.
//   - ctx's error: ctx ended before the reply arrived.
//
// If ctx ends, the NIC tells the NIC of the called process that the caller has given up. If the
// request has not arrived yet, the NIC of the called process discards the request. A later Reply
// fails with [ErrCancelled]. If a reply still arrives, the caller's NIC discards the reply.
func (r Peer) Call(ctx context.Context, tag Tag, request, buf []byte) (m Message, err error) {
	if err := r.ended(ctx, "call"); err != nil {
		return m, err
	}
	d, word, err := r.receiver("call", tag)
	if err != nil {
		return m, err
	}
	pm, err := r.p.p.Call(ctx, d, word, buf, request)
	m.set(r.p.names, &pm)
	return m, opError(err)
}

// Reply answers a message that was sent by [Peer.Call]. Only the caller gets the reply. A nil error
// means that the reply was sent, not that the caller has received it.
//
// Each call accepts only one reply. A second Reply to the same call fails with [ErrBadArgument],
// even for a copy of the Message, and even while the first Reply is still in progress. After a
// failed Reply, the process may reply to the call again. A second Reply is detected for the last
// 32,736 calls that the process received. A second Reply to an older call is sent, and the caller's
// NIC discards it.
//
// A failed Reply affects only this call. Reply fails with one of these errors:
//
//   - [ErrCancelled]: the caller has given up.
//   - [ErrProcessGone]: the caller has ended.
//   - [ErrUnreachable]: the caller's NIC is silent.
//   - [ErrBadArgument]: the call already has a reply, the message is not a call, or the message was
//     only probed and not received.
//
// If the caller is on the same NIC, Reply always detects that the caller has given up. If the
// caller is on another NIC, that NIC sends a notice when the caller gives up. A reply of up to 16
// KiB that is sent before the notice arrives is lost, but Reply still returns nil. For each pair of
// a process and another NIC, a NIC remembers the last 1,024 calls that were given up.
func (p *port) Reply(ctx context.Context, m Message, parts ...[]byte) error {
	if err := ctx.Err(); err != nil {
		return &OpError{Op: "reply", Peer: m.From, Addr: m.Addr, Err: err}
	}
	if p.closed.Load() {
		return p.badTag("reply", m.Tag)
	}
	pm := proc.Message{NIC: uint64(m.Addr.NIC), Slot: m.Addr.Slot, Gen: m.Addr.Generation, Token: m.token}
	pm.From, _ = m.From.vni() // only error texts use it
	return opError(p.p.Reply(ctx, &pm, parts...))
}
