package proc

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/vni"
)

// Inbox receives many messages one after the other, with less work for each than Recv has. By the straight way its receive
// stays posted from message to message, into one of two batches, while the other is read:
//
//	NIC     fills  ──► batch ─┐  swapped when all
//	                          ├─ of the other has
//	Next    reads  ◄── batch ─┘  been read
//
// Elsewhere, and when the straight way refuses, each Next receives one message as Recv does. One goroutine at a time uses
// it.
type Inbox struct {
	p     *Process
	from  Dest
	match Match
	ready func() bool

	w       vni.StraightReceive // into the batch that is filled, if there is a straight way
	posted  bool
	reading *vni.Batch
	next    int   // of the items that are read
	err     error // what comes behind them
	msg     Message
	closed  bool
}

// OpenInbox makes an Inbox for the messages from a process, or from any if from is zero, with a tag, or any. Each of its
// batches has size bytes, and room for so many messages. A message of more than size bytes is cut short.
func (p *Process) OpenInbox(from Dest, match Match, size, messages int) *Inbox {
	b := &Inbox{p: p, from: from, match: match, reading: vni.NewBatch(size, messages)}
	b.ready = func() bool { return b.w.Some() || b.w.Done() || p.dead.Load() || p.vp.Gone() != vni.StatusOK }
	if p.opts.Straight != nil {
		b.w = vni.StraightReceive{From: from.Name, NIC: from.NIC, Slot: from.Slot, Gen: from.Gen, Tag: match.Tag, AnyTag: match.Any,
			Batch: vni.NewBatch(size, messages)}
	}
	return b
}

// Next waits for the next message. It and its bytes are the Inbox's, until the next call. A message that is longer than
// the Inbox's size comes with ErrTruncated. If ctx ends, nothing is lost: the next Next has it.
func (b *Inbox) Next(ctx context.Context) (*Message, []byte, error) {
	data, _, err := b.NextInto(ctx, &b.msg)
	if err != nil && !errors.Is(err, ErrTruncated) {
		return nil, nil, err
	}
	return &b.msg, data, err
}

// NextInto is Next that tells of the message in m, which is the same at each call: who sent it is only written when that may
// have changed, as other says. With any error but ErrTruncated there is no message.
func (b *Inbox) NextInto(ctx context.Context, m *Message) (data []byte, other bool, err error) {
	for b.next == len(b.reading.Items) {
		if err := b.fetch(ctx); err != nil {
			return nil, false, &OpError{Op: "receive", Peer: b.from.Name, NIC: b.from.NIC, Err: err}
		}
	}
	i := b.next
	b.next++
	items := b.reading.Items
	it := &items[i]
	if other = i == 0 || items[i-1].Source != it.Source; other {
		s := &b.reading.Sources[it.Source]
		m.From, m.NIC, m.Slot, m.Gen = s.From, s.NIC, s.Slot, s.Gen
	}
	m.Tag, m.Len, m.Full, m.Token = it.Tag, int(it.Len), it.Full, Token(it.Token)
	if it.Full > uint64(it.Len) {
		err = &OpError{Op: "receive", Peer: m.From, NIC: m.NIC, Err: ErrTruncated}
	}
	return b.reading.Payload(i), other, err
}

// fetch brings messages to be read, or says what came instead.
func (b *Inbox) fetch(ctx context.Context) error {
	p := b.p
	if n := len(b.reading.Sources); n > 0 && b.w.Batch != nil && b.from.NIC == 0 && !b.from.Name.IsZero() {
		s := &b.reading.Sources[n-1]
		b.w.Life.NIC, b.w.Life.Slot, b.w.Life.Gen = s.NIC, s.Slot, s.Gen
	}
	b.reading.Reset()
	b.next = 0
	if err := b.err; err != nil {
		b.err = nil
		return err
	}
	if b.closed || p.closed.Load() {
		return ErrClosed
	}
	if !b.posted {
		if b.w.Batch == nil || !p.opts.Straight.Receive(&b.w) {
			return b.fetchOne(ctx)
		}
		b.posted = true
	}
	if err := b.wait(ctx); err != nil {
		return err
	}
	switch {
	case b.w.Done():
		b.ended()
	case b.w.Some():
		taken := p.opts.Straight.Swap(&b.w, b.reading)
		if taken == nil && !b.w.Done() { // nobody serves us: what ends otherwise has been told by now
			if err := p.nicGone(); err != nil {
				return err
			}
			p.fail()
			return p.nicGone()
		}
		if taken != nil { // else it has ended just now
			b.reading = taken
		}
	default:
		return p.nicGone()
	}
	return nil
}

// wait waits until there is something to fetch.
func (b *Inbox) wait(ctx context.Context) error {
	if b.ready() {
		return nil
	}
	p := b.p
	if !p.enter() {
		return ErrClosed
	}
	defer p.leave()
	err := p.w.Wait(ctx, b.ready)
	if errors.Is(err, ErrNICGone) {
		p.fail()
		return nil // the caller finds out
	}
	return err
}

// ended takes what a receive has that is not posted any more. Its error comes behind it.
func (b *Inbox) ended() {
	b.posted = false
	b.reading, b.w.Batch = b.w.Batch, b.reading
	switch c := &b.w.Result; c.Status {
	case vni.StatusOK, vni.StatusTruncated:
	case vni.StatusCancelled: // nobody else cancels it
		b.err = ErrClosed
	default:
		b.err = statusError(c.Status)
	}
	b.p.changed()
}

// fetchOne receives one message as Recv does.
func (b *Inbox) fetchOne(ctx context.Context) error {
	m, err := b.p.Recv(ctx, b.from, b.match, b.reading.Buf)
	if err != nil && !errors.Is(err, ErrTruncated) {
		var op *OpError
		if errors.As(err, &op) { // Next names the operation
			err = op.Err
		}
		return err
	}
	b.reading.Sources = append(b.reading.Sources, vni.BatchSource{From: m.From, NIC: m.NIC, Slot: m.Slot, Gen: m.Gen})
	b.reading.Add(m.Len, m.Full, m.Tag, uint32(m.Token))
	return nil
}

// Close gives up the Inbox. Messages that it has taken in and Next has not returned wait for other receives again, before
// all that came later; of one that had to be cut short there is no more than there is. A second Close does nothing.
func (b *Inbox) Close() {
	if b.closed {
		return
	}
	b.closed = true
	reading, filled, next := b.reading, b.w.Batch, b.next
	b.reading, b.w.Batch, b.next = new(vni.Batch), nil, 0
	if !b.posted {
		if filled == nil || next == len(reading.Items) {
			return
		}
		filled.Reset()
	}
	b.p.opts.Straight.Return(&b.w, next, reading, filled)
	b.posted = false
	b.p.changed()
}
