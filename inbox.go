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
// For matching, an Inbox is one receive, posted by the first Next. While its ring has no room for the
// next message, the NIC treats it as not posted: another receive that matches may get the message.
//
// An Inbox belongs to one goroutine at a time. Inboxes may use half of a process's receive contexts
// and, with a daemon, 4 MiB for their rings; beyond that an Inbox receives one message at a time.
// With a daemon, close each Inbox even if you close the process: its memory stays mapped until then.
type Inbox struct {
	b     *proc.Inbox
	names *nameCache   // of its process
	half  proc.Message // what msg was made from
	msg   Message
}

// Inbox opens an Inbox for messages from the process with a name or from [AnyProcess], with one tag
// or with [AnyTag]. It truncates a message that is longer than size bytes; a size below 256 KiB, such
// as 0, means 256 KiB. The largest size is 256 MiB.
func (p *port) Inbox(from Name, tag Tag, size int) (*Inbox, error) {
	const op = "receive"
	d, match, err := p.Peer(from).source(op, tag)
	if err != nil {
		return nil, err
	}
	if size < 0 || size > limits.InboxBytes {
		return nil, &OpError{Op: op, Err: fmt.Errorf("%w: an Inbox of %d bytes; expected 0 to %d", ErrBadArgument, size, limits.InboxBytes)}
	}
	return &Inbox{b: p.p.OpenInbox(d, match, max(size, limits.InboxLeast), 0), names: p.names}, nil
}

// Next waits for the next message. [Message].Data holds its bytes until the following call of Next.
// A truncated message comes with [ErrTruncated]. If ctx ends first, no message is lost.
func (b *Inbox) Next(ctx context.Context) (Message, error) {
	if err := ended(ctx, "receive"); err != nil {
		return Message{}, err
	}
	m := &b.msg
	data, other, err := b.b.NextInto(ctx, &b.half)
	if err != nil && !errors.Is(err, ErrTruncated) {
		return Message{}, opError(err)
	}
	if other {
		m.set(b.names, &b.half)
	} else {
		m.Tag, m.Len, m.Full, m.token = Tag(b.half.Tag&vni.TagMask), b.half.Len, int(b.half.Full), b.half.Token
	}
	m.Data = data
	return *m, opError(err)
}

// All returns the messages as they come. A truncated message comes with [ErrTruncated], and the
// sequence goes on; it ends after any other error, such as ctx's. [Message].Data is valid until the
// loop asks for the next message.
func (b *Inbox) All(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for {
			m, err := b.Next(ctx)
			if !yield(m, err) || err != nil && !errors.Is(err, ErrTruncated) {
				return
			}
		}
	}
}

// Close closes the Inbox. Messages that it holds and Next has not returned wait for the next receive
// in their order, truncated if they were.
func (b *Inbox) Close() { b.b.Close() }
