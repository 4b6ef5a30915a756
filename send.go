package weft

import (
	"context"

	"github.com/weftnet/weft/internal/vni"
)

// Send sends a message to the process with the name receiver. It is short for
// p.Peer(receiver).Send; see [Peer.Send].
func (p *port) Send(ctx context.Context, receiver Name, tag Tag, parts ...[]byte) error {
	k := p.names.known(&receiver) // inlined, unlike find
	if k == nil {
		k = p.names.learn(receiver)
	}
	return p.send(ctx, k, tag, parts)
}

// Send sends the concatenation of the parts as one message. Send returns when the caller may use
// the parts again, even if the message is still in flight. If Send fails, the message was delivered
// once or not at all. A message can be lost even if Send succeeds. If the session with the
// receiver's NIC ends before the message arrives, this message and all later messages of the
// session are lost. An [Event] gives an upper bound on the number of lost messages.
//
// A message may have any length, and may be empty. A message of up to 16 KiB waits at the
// receiver's NIC until a receive matches the message. This NIC has 4 MiB for the waiting messages
// of each of its processes, unless its daemon is configured otherwise. While this memory is full,
// Send waits. A message of more than 65 KiB stays at the sender, and Send waits until a receive
// matches the message. A message of more than 16 KiB and at most 65 KiB may wait at the sender or
// at the receiver's NIC.
//
// Send fails with [ErrNameUnknown] if no live NIC knows the name; see [Process.WaitName]. Shortly
// after the receiver has ended, Send may still succeed and lose the message, or fail with
// [ErrProcessGone].
func (r Peer) Send(ctx context.Context, tag Tag, parts ...[]byte) error {
	if r.k != nil {
		return r.p.send(ctx, r.k, tag, parts)
	}
	if err := r.ended(ctx, "send"); err != nil {
		return err
	}
	return r.sendLong(ctx, tag, parts)
}

// send sends to the process with a name. An embedded NIC takes most short messages at once.
func (p *port) send(ctx context.Context, k *knownName, tag Tag, parts [][]byte) error {
	if ctx.Err() != nil {
		return Peer{p: p, k: k}.ended(ctx, "send")
	}
	if word, ok := p.word(tag); ok && k.named && p.p.Post(&k.dest.Name, word, parts) {
		return nil
	}
	return Peer{p: p, k: k}.sendLong(ctx, tag, parts)
}

// sendLong sends by a context and a command.
func (r Peer) sendLong(ctx context.Context, tag Tag, parts [][]byte) error {
	d, word, err := r.receiver("send", tag)
	if err != nil {
		return err
	}
	return opError(r.p.p.Send(ctx, d, word, parts...))
}

// TrySend sends a message if it can do so without waiting, and reports whether it has sent the
// message. If TrySend returns true, the caller may use the parts again. An embedded NIC accepts
// most messages of up to 16 KiB. If TrySend returns false, it has sent nothing, but [Peer.Send] may
// still succeed. With a daemon TrySend always returns false.
func (r Peer) TrySend(tag Tag, parts ...[]byte) bool {
	d, word, err := r.receiver("send", tag)
	return err == nil && r.p.p.TrySend(d, word, parts...)
}

// SendMany sends several messages in order, each in the same way as [Peer.Send]. SendMany suits
// streams of short messages: an embedded NIC accepts all the messages in one call, and packs
// several messages into each frame. SendMany returns the number of messages sent. If this number is
// less than len(messages), err is the error of the next message, which was delivered once or not at
// all.
func (r Peer) SendMany(ctx context.Context, tag Tag, messages [][]byte) (sent int, err error) {
	if err := r.ended(ctx, "send"); err != nil {
		return 0, err
	}
	d, word, err := r.receiver("send", tag)
	if err != nil {
		return 0, err
	}
	if len(messages) == 0 && r.p.p.Closed() {
		return 0, &OpError{Op: "send", Peer: r.Name(), Addr: r.at, Err: ErrClosed}
	}
	sent, err = r.p.p.SendMany(ctx, d, word, messages)
	return sent, opError(err)
}

// SendDelivered is like [Peer.Send], but it waits until the receiver's NIC has accepted the message
// and every earlier message of this process to that receiver.
//
// SendDelivered fails with [ErrTruncated] if the matching receive kept only the beginning of the
// message. On a port with a number of 0xff00 or more, SendDelivered fails with [ErrNoReceiver] if
// the receiver has never received on that port. A NIC may accept a message of at most 16 KiB before
// a receive matches the message. Then SendDelivered succeeds, even if a later receive truncates the
// message.
func (r Peer) SendDelivered(ctx context.Context, tag Tag, parts ...[]byte) error {
	if err := r.ended(ctx, "send"); err != nil {
		return err
	}
	d, word, err := r.receiver("send", tag)
	if err != nil {
		return err
	}
	return opError(r.p.p.SendDelivered(ctx, d, word, parts...))
}

// Multicast sends one message to several processes with one command to the NIC. It returns when the
// caller may use the parts again. Each receiver gets an ordinary message. If some receivers cannot
// be reached, the other receivers still get the message, and the error names the first receiver
// that cannot be reached.
func (p *port) Multicast(ctx context.Context, receivers []Name, tag Tag, parts ...[]byte) error {
	const op = "multicast"
	if err := ended(ctx, op); err != nil {
		return err
	}
	word, ok := p.word(tag)
	if !ok {
		return p.badTag(op, tag)
	}
	if p.p.Closed() {
		return &OpError{Op: op, Err: ErrClosed}
	}
	names := make([]vni.Name, len(receivers))
	for i, n := range receivers {
		d, _, err := p.Peer(n).receiver(op, tag)
		if err != nil {
			return err
		}
		names[i] = d.Name
	}
	return opError(p.p.Multicast(ctx, names, word, parts...))
}
