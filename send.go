package weft

import (
	"context"

	"github.com/weftnet/weft/internal/vni"
)

// Send sends a message to the process with a name. It is short for p.Peer(to).Send: see
// [Peer.Send].
func (p *port) Send(ctx context.Context, to Name, tag Tag, parts ...[]byte) error {
	return p.Peer(to).Send(ctx, tag, parts...)
}

// Send sends one message, the concatenation of parts, and returns when the parts may be used again.
// The message is then on its way. If Send fails, the message was delivered once or not at all. If
// Send succeeds and the session with the receiver's NIC ends before the message has arrived, the
// message and all later ones of that session are lost. An [Event] tells how many at most.
//
// A message may have any length, and may be empty. A message of up to 16 KiB waits for its receive
// at the receiver's NIC, which has 4 MiB for the messages of each process unless its daemon is
// configured otherwise. If these are full, Send waits. A message of more than 65 KiB stays at the
// sender, and Send waits until a receive matches it. A message between the two lengths may go
// either way.
//
// Send fails with [ErrNameUnknown] if no live NIC knows the name; see [Process.WaitName].
func (r Peer) Send(ctx context.Context, tag Tag, parts ...[]byte) error {
	if err := ended(ctx, "send"); err != nil {
		return err
	}
	if r.k != nil && r.k.named {
		if word, ok := r.p.word(tag); ok && r.p.p.Post(&r.k.dest.Name, word, parts) {
			return nil
		}
	}
	d, word, err := r.receiver("send", tag)
	if err != nil {
		return err
	}
	return opError(r.p.p.Send(ctx, d, word, parts...))
}

// TrySend sends a message if it can do so without a wait. It reports whether the message is on its
// way, and the parts may then be used again. An embedded NIC takes most messages of up to 16 KiB.
// False means that nothing was sent; it does not mean that Send would fail. With a daemon TrySend
// always returns false.
func (r Peer) TrySend(tag Tag, parts ...[]byte) bool {
	d, word, err := r.receiver("send", tag)
	return err == nil && r.p.p.TrySend(d, word, parts...)
}

// SendMany sends several messages in order, each as [Peer.Send] does. It suits streams of short
// messages: an embedded NIC takes all of them in one call, and puts them into common frames. It
// returns the number of messages sent. If that is fewer than all, the error is that of the next
// message, which was delivered once or not at all.
func (r Peer) SendMany(ctx context.Context, tag Tag, messages [][]byte) (sent int, err error) {
	if err := ended(ctx, "send"); err != nil {
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

// SendDelivered sends as [Peer.Send] does, and returns when the receiver's NIC has accepted the
// message and every earlier message of this process to that receiver.
//
// It fails with [ErrTruncated] if the matching receive kept only the beginning of the message, and
// with [ErrNoReceiver] on a port of 0xff00 or more on which the receiver has never received. A NIC
// may accept a message of at most 16 KiB before a receive matches it. In that case SendDelivered
// succeeds even if the message is truncated later.
func (r Peer) SendDelivered(ctx context.Context, tag Tag, parts ...[]byte) error {
	if err := ended(ctx, "send"); err != nil {
		return err
	}
	d, word, err := r.receiver("send", tag)
	if err != nil {
		return err
	}
	return opError(r.p.p.SendDelivered(ctx, d, word, parts...))
}

// Multicast sends one message to several processes by one command to the NIC, and returns when the
// parts may be used again. Each receiver gets it as an ordinary message. If some cannot be reached,
// the others still get it, and the error names the first of the unreachable ones.
func (p *port) Multicast(ctx context.Context, to []Name, tag Tag, parts ...[]byte) error {
	const op = "multicast"
	if err := ended(ctx, op); err != nil {
		return err
	}
	names := make([]vni.Name, len(to))
	for i, n := range to {
		d, _, err := p.Peer(n).receiver(op, tag)
		if err != nil {
			return err
		}
		names[i] = d.Name
	}
	return opError(p.p.Multicast(ctx, names, p.base|uint64(tag), parts...))
}
