package proc

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Inbox receives many messages one after the other, with less work for each than Recv has: one command posts a receive that stays
// posted, and the NIC puts message after message into a ring of memory (vni.RingReader), from where Next hands them out without
// a command, without a copy and without a lock.
//
//	Next: a message in the ring? ─yes─► out it goes
//	          │ no
//	          ├─ not posted: post it. No context to spare, or no memory: receive one message as Recv does
//	          ├─ the NIC found no room lately: a Refill
//	          └─ wait until there is one, or the receive has ended
//
// One goroutine at a time uses it.
type Inbox struct {
	p     *Process
	from  Dest
	match Match
	size  int // of the longest message
	room  int // bytes of the ring
	ready func() bool

	ring   vni.RingReader
	op     Op
	place  place // of the ring
	mem    []byte
	posted bool
	counts bool // it is one of Process.inboxes
	alone  int  // messages to receive one by one before the ring is tried again
	single []byte
	msg    Message
	closed bool
}

// aloneFor is how many messages an Inbox receives one by one when the NIC has no memory for its ring.
const aloneFor = 64

// OpenInbox makes an Inbox for the messages from a process, or from any if from is zero, with a tag, or any. A message of more
// than size bytes is cut short. room is how many bytes of messages it takes before it is read; it is made large enough for the longest.
func (p *Process) OpenInbox(from Dest, match Match, size, room int) *Inbox {
	b := &Inbox{p: p, from: from, match: match, size: size}
	b.room = (max(vni.RingSize(size), room) + 63) &^ 63
	b.ready = func() bool { return b.ring.Ready() || b.op.settled() || p.over() }
	b.op.done.Store(true)
	b.op.ring = &b.ring
	if !p.direct && b.room > limits.RingBytes {
		b.alone = -1
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

// NextInto is Next that tells of the message in m, which is the same at each call: the sender is only written when it may
// have changed, as other says. With any error but ErrTruncated there is no message.
func (b *Inbox) NextInto(ctx context.Context, m *Message) (data []byte, other bool, err error) {
	ok := false
	if b.posted {
		data, ok = b.ring.Next()
	}
	for !ok {
		one, err := b.fetch(ctx, m)
		switch {
		case one && (err == nil || errors.Is(err, ErrTruncated)):
			b.ring.Other = true
			return b.single[:m.Len], true, err
		case err != nil:
			return nil, false, &OpError{Op: "receive", Peer: b.from.Name, NIC: b.from.NIC, Slot: b.from.Slot, Gen: b.from.Gen, Err: err}
		}
		data, ok = b.ring.Next()
	}
	r := &b.ring
	if other = r.Other; other {
		r.Other = false
		m.From, m.NIC, m.Slot, m.Gen = r.From.Name, r.From.NIC, r.From.Slot, r.From.Gen
	}
	m.Tag, m.Len, m.Full, m.Token = r.Tag, len(data), uint64(len(data)), Token(r.Token)
	if m.IsCall() {
		b.p.answered.received(&m.Token)
	}
	if r.Full > m.Full {
		m.Full = r.Full
		err = &OpError{Op: "receive", Peer: r.From.Name, NIC: r.From.NIC, Slot: r.From.Slot, Gen: r.From.Gen, Err: ErrTruncated}
	}
	return data, other, err
}

// fetch waits until there may be a message in the ring, or receives one by itself into m, or says what came instead.
func (b *Inbox) fetch(ctx context.Context, m *Message) (one bool, err error) {
	p := b.p
	if b.closed || p.closed.Load() {
		return false, ErrClosed
	}
	if !b.posted {
		if b.alone == 0 {
			if err := b.post(ctx); err != nil {
				return false, err
			}
		}
		if !b.posted {
			return true, b.fetchOne(ctx, m)
		}
	}
	if b.op.settled() && b.op.settle() {
		if !b.ring.Ready() { // else it came before the end
			b.posted = false
			return false, b.ended()
		}
		return false, nil
	}
	if b.ring.Stalled() {
		return false, b.refill(ctx)
	}
	return false, b.wait(ctx)
}

// post posts the ring, if a context can be spared and there is memory; else messages are received one by one for a while.
func (b *Inbox) post(ctx context.Context) error {
	p := b.p
	if !b.counts && !p.countInbox() {
		b.alone = aloneFor
		return nil
	}
	b.counts = true
	if b.mem == nil && !b.allocate() {
		b.alone = aloneFor
		return nil
	}
	r := request{what: "receive", code: vni.CodeReceiveRing, receive: true, with: b.from, own: &b.op}
	r.receiveRequest(b.match, 0, nil)
	r.recv.Most = uint64(b.size)
	r.inbox = b
	b.op.free(p) // what has settled it may still give its context back
	b.op.begin(p)
	if err := p.begin(ctx, nil, &r); err != nil {
		b.op.done.Store(true)
		return err
	}
	b.posted, b.ring.Other = true, true
	return nil
}

// allocate finds memory for the ring: on the heap if the NIC reaches that, else a region.
func (b *Inbox) allocate() bool {
	p := b.p
	if p.direct {
		b.mem = vni.AlignedBytes(b.room)
		return true
	}
	if p.takeTemporary(&b.place, uint64(b.room)) != nil {
		return false
	}
	b.mem = b.place.mem
	return true
}

// describe fills in where the ring is. Under p.mu; the context is the caller's.
func (b *Inbox) describe(r *request) {
	p, i := b.p, r.op.ctx
	r.length = uint64(len(b.mem))
	b.ring.Open(p.vp, i, b.mem)
	if p.direct {
		p.vp.SetDirect(true, i, [][]byte{b.mem})
	} else {
		p.vp.SetDescriptors(true, i, []vni.Descriptor{{Region: b.place.temp.id, Len: r.length}})
	}
	r.memory(vni.NoPool, 1)
}

// countInbox reports whether one more Inbox may keep a context: half of them stay for other receives.
func (p *Process) countInbox() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inboxes >= len(p.ops[receiveList])/2 {
		return false
	}
	p.inboxes++
	return true
}

// ended says why the ring's receive has ended; nil if messages are to be received one by one for a while.
func (b *Inbox) ended() error {
	err := b.op.err
	if errors.Is(err, ErrNoMemory) {
		b.alone = aloneFor
		return nil
	}
	var op *OpError
	if errors.As(err, &op) { // Next names the operation
		err = op.Err
	}
	if errors.Is(err, ErrCancelled) { // nothing else cancels it
		err = ErrClosed
	}
	return err
}

// refill has the NIC look at the ring again, if it is still posted.
func (b *Inbox) refill(ctx context.Context) error {
	p := b.p
	for {
		p.mu.Lock()
		err := p.usable()
		ok := err == nil && p.vp.Room(1+p.reserve)
		if ok && b.op.posted {
			p.vp.Post(vni.Command{Code: vni.CodeRefill, Context: uint16(b.op.ctx), Size: vni.CancelReceive})
		}
		head, kick := p.vp.KnownHead(), ok && p.vp.MustKick()
		p.mu.Unlock()
		switch {
		case err != nil:
			return err
		case kick:
			p.w.Kick()
		}
		if ok {
			return nil
		}
		if err := p.waitFor(ctx, lackRoom, head); err != nil {
			b.ring.Unanswered()
			return err
		}
	}
}

// wait waits until there is something to fetch.
func (b *Inbox) wait(ctx context.Context) error {
	p := b.p
	if !p.enter() {
		return ErrClosed
	}
	defer p.leave()
	err := p.w.Wait(ctx, b.ready)
	if err != nil && errors.Is(err, ErrNICGone) {
		p.fail()
		return nil // the end of the receive says it
	}
	return err
}

// fetchOne receives one message as Recv does.
func (b *Inbox) fetchOne(ctx context.Context, m *Message) error {
	if b.single == nil {
		b.single = make([]byte, b.size)
	}
	if b.alone > 0 {
		b.alone--
	}
	*m = Message{}
	err := b.p.RecvInto(ctx, m, &b.from, b.match, b.single)
	var op *OpError
	if errors.As(err, &op) && !errors.Is(err, ErrTruncated) {
		err = op.Err
	}
	return err
}

// Close gives up the Inbox. Messages that it has taken in and Next has not returned wait for other receives again, before
// all that came later; of one that had to be cut short there is no more than there is. A second Close does nothing.
func (b *Inbox) Close() {
	if b.closed {
		return
	}
	b.closed = true
	p := b.p
	if b.posted {
		b.posted = false
		b.giveUp()
		b.await()
	}
	b.mem = nil
	p.mu.Lock()
	p.giveUp(&b.place)
	if b.counts {
		p.inboxes--
	}
	p.mu.Unlock()
	if !p.direct {
		_ = p.trim(limits.Temporaries) // one that cannot be freed costs memory only
	}
	p.changed()
}

// giveUp says what was read, and cancels the ring's receive, unless that has ended.
func (b *Inbox) giveUp() {
	o := &b.op
	o.mu.Lock() // so that it is not settled, and its context another's, in between
	defer o.mu.Unlock()
	if !o.done.Load() {
		b.ring.Finish()
		b.p.cancel(o, true)
	}
}

// await waits for the answer to a Cancel of the ring's receive.
func (b *Inbox) await() {
	p := b.p
	ctx, cancel := p.patience()
	defer cancel()
	for !b.op.settle() && p.enter() {
		err := p.w.Wait(ctx, b.op.ready)
		p.leave()
		if err != nil {
			p.fail()
		}
	}
}
