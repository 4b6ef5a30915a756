package weft

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Inbox receives messages one after the other, at less cost than so many calls of [Process.Recv]: the NIC puts whatever comes into
// a ring of memory that it shares with the process, and Next hands it out from there. It is for streams of short messages; a long one
// comes through it like any other.
//
// It takes part in matching as one receive, posted when Next first waits. While its ring has no room for the next message it is as if
// it were not posted: of a process's other receives those that match the same messages may then get some. It belongs to one goroutine
// at a time. Half of a process's receive contexts can be those of Inboxes, and 4 MiB of a daemon's process their rings; beyond that an Inbox
// receives one by one. An Inbox of a daemon's process should be closed even if the process is: the memory stays mapped until then.
type Inbox struct {
	b     *proc.Inbox
	names *nameCache   // of its process
	half  proc.Message // of which msg tells
	msg   Message
}

// Inbox opens an Inbox for the messages of a process, or of [AnyProcess], with a tag, or with [AnyTag]. A message that is longer
// than size bytes is cut short; with a size of less than 256 KiB, such as 0, one that is longer than 256 KiB.
func (p *port) Inbox(from Name, tag Tag, size int) (*Inbox, error) {
	d, match, err := p.source("receive", from, tag)
	if err != nil {
		return nil, err
	}
	if size < 0 || size > limits.InboxBytes {
		return nil, &OpError{Op: "receive", Err: fmt.Errorf("%w: an Inbox of %d bytes; expected 0 to %d", ErrBadArgument, size, limits.InboxBytes)}
	}
	return &Inbox{b: p.p.OpenInbox(d, match, max(size, limits.InboxLeast), 0), names: p.names}, nil
}

// Next waits for the next message. What it returns is the Inbox's until the next call: the Message, and the bytes. A
// message that was cut short comes with [ErrTruncated]. If ctx ends first, no message is lost.
func (b *Inbox) Next(ctx context.Context) (*Message, []byte, error) {
	if err := ended(ctx, "receive"); err != nil {
		return nil, nil, err
	}
	m := &b.msg
	data, other, err := b.b.NextInto(ctx, &b.half)
	if err != nil && !errors.Is(err, ErrTruncated) {
		return nil, nil, err
	}
	if other {
		m.set(b.names, &b.half)
	} else {
		m.Tag, m.Len, m.Full, m.token = Tag(b.half.Tag&vni.TagMask), b.half.Len, int(b.half.Full), b.half.Token
	}
	return m, data, err
}

// Close gives up the Inbox. Messages that came and that Next has not returned yet wait for the next receive, in their
// order; of one that had to be cut short there is no more than there was.
func (b *Inbox) Close() { b.b.Close() }
