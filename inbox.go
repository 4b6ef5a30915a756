package weft

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Inbox receives many messages through one posted receive. [Process.Inbox] opens an Inbox. The NIC
// copies each message into a ring of memory that it shares with the process, and Next returns the
// message from this ring. An Inbox is the fastest way to receive short messages, and it also
// receives long messages.
//
// An Inbox counts as one receive. The first call of Next posts this receive. While the ring has no
// room for the next message, the NIC treats this receive as not posted, and another matching
// receive may get the message.
//
// Goroutines must not use an Inbox concurrently. All Inboxes of a process together use at most half
// of the process's receive contexts. With a daemon, the rings of these Inboxes use at most 4 MiB
// together. If there is no context or no memory for a ring, the Inbox posts a receive for each
// message, which is slower. With a daemon, close each Inbox even if you close the process: the
// memory of the Inbox stays mapped until the Inbox is closed.
type Inbox struct {
	b     *proc.Inbox
	names *nameCache   // of the process
	peer  Name         // the only sender, or AnyProcess
	half  proc.Message // the last message, as package proc returned it
	from  Name         // the sender of the last message
	addr  Address      // the address of that sender

	sender uint64 // number of the sender that from and addr describe
}

// senders numbers the senders of all Inboxes. Each change of sender takes a new number.
var senders atomic.Uint64

// Inbox opens an Inbox for messages from the process with the name sender, or from any process if
// sender is [AnyProcess]. The messages have the given tag, or any tag if tag is [AnyTag]. The Inbox
// truncates a message that is longer than maxBytes bytes. If maxBytes is less than 256 KiB, for
// example 0, the Inbox uses 256 KiB instead. The maximum of maxBytes is 256 MiB.
func (p *port) Inbox(sender Name, tag Tag, maxBytes int) (*Inbox, error) {
	const op = "receive"
	d, match, err := p.Peer(sender).source(op, tag)
	if err != nil {
		return nil, err
	}
	if p.p.Closed() {
		return nil, &OpError{Op: op, Peer: sender, Err: ErrClosed}
	}
	if maxBytes < 0 || maxBytes > limits.InboxBytes {
		return nil, &OpError{Op: op, Err: fmt.Errorf("%w: an Inbox of %d bytes; expected 0 to %d",
			ErrBadArgument, maxBytes, limits.InboxBytes)}
	}
	return &Inbox{b: p.p.OpenInbox(d, match, max(maxBytes, limits.InboxLeast), 0), names: p.names, peer: sender}, nil
}

// Next waits for the next message. The bytes in [Message].Data are valid until the next call of
// Next. If the message was truncated, Next returns the message and [ErrTruncated]. If ctx ends
// first, no message is lost.
func (b *Inbox) Next(ctx context.Context) (m Message, err error) {
	err = b.NextInto(ctx, &m)
	return m, err
}

// NextInto is like [Inbox.Next], but it writes the Message to *m. So NextInto avoids a copy of the
// Message. For a short message, this copy takes about half of the time of a receive. If NextInto
// fails with an error other than [ErrTruncated], it does not change *m.
//
// Between calls, leave *m as NextInto wrote it, or zero it: NextInto writes From and Addr only if
// the sender differs from the last one.
func (b *Inbox) NextInto(ctx context.Context, m *Message) error {
	if err := ctx.Err(); err != nil {
		return &OpError{Op: "receive", Peer: b.peer, Err: err}
	}
	data, other, err := b.b.NextInto(ctx, &b.half)
	if err != nil && !errors.Is(err, ErrTruncated) {
		return opError(err)
	}
	if other {
		b.from, b.addr = b.names.name(&b.half.From), Address{NICID(b.half.NIC), b.half.Slot, b.half.Gen}
		b.sender = senders.Add(1)
	}
	if m.sender != b.sender { // written only if it differs, which costs less
		m.From, m.Addr, m.sender = b.from, b.addr, b.sender
	}
	m.Tag, m.Len, m.Full, m.token = Tag(b.half.Tag&vni.TagMask), b.half.Len, int(b.half.Full), b.half.Token
	m.Data = data
	return opError(err)
}

// All returns an iterator over the messages as they arrive. For a truncated message, the iterator
// yields the message and [ErrTruncated], and then continues. The iteration ends after any other
// error, such as ctx's error. After a break, the next call of All, Next or NextInto returns the
// following message. [Message].Data is valid until the loop asks for the next message.
func (b *Inbox) All(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		var m Message
		for {
			err := b.NextInto(ctx, &m)
			if err != nil && !errors.Is(err, ErrTruncated) {
				yield(Message{}, err)
				return
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// Close closes the Inbox. Later receives get, in order, the messages that Next has not returned. A
// message that the Inbox has truncated stays truncated.
func (b *Inbox) Close() { b.b.Close() }
