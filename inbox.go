package weft

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Inbox receives many messages through one posted receive. The NIC copies each message into a ring
// of memory that it shares with the process, and Next returns it from there, so an Inbox is the
// fastest way to receive short messages. It receives long ones too. [Process.Inbox] opens one.
//
// For matching, an Inbox is one receive, posted by the first Next. While its ring has no room for
// the next message, the NIC treats it as not posted: another receive that matches may get the
// message.
//
// Goroutines must not use an Inbox concurrently. The Inboxes of a process share half of its receive
// contexts and, with a daemon, 4 MiB for their rings. Without a context or a ring an Inbox posts a
// receive for each message, which is slower. With a daemon, close each Inbox even if you close the
// process: its memory stays mapped until then.
type Inbox struct {
	b     *proc.Inbox
	names *nameCache   // of its process
	half  proc.Message // the last message, as the process half has it
	from  Name         // its sender
	addr  Address
}

// Inbox opens an Inbox for messages from the process with a name or from [AnyProcess], with one tag
// or with [AnyTag]. It truncates a message that is longer than size bytes; a size below 256 KiB,
// such as 0, means 256 KiB. The largest size is 256 MiB.
func (p *port) Inbox(from Name, tag Tag, size int) (*Inbox, error) {
	const op = "receive"
	d, match, err := p.Peer(from).source(op, tag)
	if err != nil {
		return nil, err
	}
	if size < 0 || size > limits.InboxBytes {
		return nil, &OpError{Op: op, Err: fmt.Errorf("%w: an Inbox of %d bytes; expected 0 to %d",
			ErrBadArgument, size, limits.InboxBytes)}
	}
	return &Inbox{b: p.p.OpenInbox(d, match, max(size, limits.InboxLeast), 0), names: p.names}, nil
}

// Next waits for the next message. [Message].Data holds its bytes until the following call of Next.
// A truncated message comes with [ErrTruncated]. If ctx ends first, no message is lost.
func (b *Inbox) Next(ctx context.Context) (m Message, err error) {
	err = b.NextInto(ctx, &m)
	return m, err
}

// NextInto is Next that writes the message to *m. It saves the copies of a Message, which take almost
// as long as the rest for a short message. With any error but [ErrTruncated] it leaves *m alone.
func (b *Inbox) NextInto(ctx context.Context, m *Message) error {
	if err := ended(ctx, "receive"); err != nil {
		return err
	}
	data, other, err := b.b.NextInto(ctx, &b.half)
	if err != nil && !errors.Is(err, ErrTruncated) {
		return opError(err)
	}
	if other {
		b.from, b.addr = b.names.name(&b.half.From), Address{NICID(b.half.NIC), b.half.Slot, b.half.Gen}
	}
	if m.Addr != b.addr {
		m.From, m.Addr = b.from, b.addr
	}
	m.Tag, m.Len, m.Full, m.token = Tag(b.half.Tag&vni.TagMask), b.half.Len, int(b.half.Full), b.half.Token
	m.Data = data
	return opError(err)
}

// All returns the messages as they come. A truncated message comes with [ErrTruncated], and the
// sequence goes on; it ends after any other error, such as ctx's. [Message].Data is valid until the
// loop asks for the next message.
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

// Close closes the Inbox. Later receives get the messages that Next has not returned, in order.
// Truncated messages stay truncated.
func (b *Inbox) Close() { b.b.Close() }
