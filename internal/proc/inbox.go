package proc

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Inbox receives many messages in sequence, with less work for each than Recv. One command posts
// a receive that stays posted. The NIC puts one message after another into a ring of memory
// (vni.RingReader). Next returns them from there without a command, without a copy and without a
// lock.
//
//	Next: a message in the ring? ─yes─► return it
//	          │ no
//	          ├─ not posted: post it. No free context or memory: receive one message as Recv does
//	          ├─ the NIC found no room lately: post a Refill
//	          └─ wait until there is a message, or the receive has ended
//
// Only one goroutine may use it at a time.
type Inbox struct {
	p     *Process
	from  Dest
	match Match
	size  int // bytes of the longest message
	room  int // bytes of the ring
	ready func() bool

	ring   vni.RingReader
	op     Op
	place  place // of the ring
	mem    []byte
	posted bool
	counts bool // it is counted in Process.inboxes
	alone  int  // messages to receive one by one before the next try
	single []byte
	msg    Message
	closed bool
}

// aloneFor is the number of messages that an Inbox receives one by one if the NIC has no memory
// for its ring.
const aloneFor = 64

// OpenInbox returns an Inbox for the messages from one process, or from any process if from is
// zero, with one tag, or any. A message of more than size bytes is truncated. room is the number
// of bytes of messages that the Inbox accepts before it is read. It is increased if it is too
// small for the longest message.
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

// Next waits for the next message. The Message and its bytes belong to the Inbox, and are valid
// until the next call. A message that is longer than the Inbox's size comes with ErrTruncated. If
// ctx ends, no message is lost: the next call of Next returns it.
func (b *Inbox) Next(ctx context.Context) (*Message, []byte, error) {
	data, _, err := b.NextInto(ctx, &b.msg)
	if err != nil && !errors.Is(err, ErrTruncated) {
		return nil, nil, err
	}
	return &b.msg, data, err
}

// NextInto is Next that describes the message in m. m must be the same at each call: NextInto
// writes the sender only if it may have changed, and other reports this. With any error but
// ErrTruncated there is no message.
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
			return nil, false, &OpError{Op: "receive", Peer: b.from.Name, NIC: b.from.NIC, Slot: b.from.Slot,
				Gen: b.from.Gen, Err: err}
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
		err = &OpError{Op: "receive", Peer: r.From.Name, NIC: r.From.NIC, Slot: r.From.Slot, Gen: r.From.Gen,
			Err: ErrTruncated}
	}
	return data, other, err
}

// fetch waits until there may be a message in the ring, or receives a single message into m, or
// returns an error.
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
		if !b.ring.Ready() { // otherwise the message came before the end
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

// post posts the ring if a context is free and there is memory. Otherwise the next messages are
// received one by one.
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
	b.op.free(p) // the goroutine that settled it may still be giving its context back
	b.op.begin(p)
	if err := p.begin(ctx, nil, &r); err != nil {
		b.op.done.Store(true)
		return err
	}
	b.posted, b.ring.Other = true, true
	return nil
}

// allocate finds memory for the ring: on the heap if the NIC can access the heap, else in a
// region.
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

// describe fills in the address of the ring. The caller holds p.mu and owns the context.
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

// countInbox reports whether one more Inbox may keep a context. Half of the contexts stay free
// for other receives.
func (p *Process) countInbox() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inboxes >= len(p.ops[receiveList])/2 {
		return false
	}
	p.inboxes++
	return true
}

// ended returns the error that ended the ring's receive. It returns nil if the next messages are
// to be received one by one.
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
	if errors.Is(err, ErrCancelled) { // only the process's end cancels it
		err = ErrClosed
	}
	return err
}

// refill makes the NIC check the ring again, if the ring is still posted.
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

// wait waits until fetch can make progress.
func (b *Inbox) wait(ctx context.Context) error {
	p := b.p
	if !p.enter() {
		return ErrClosed
	}
	defer p.leave()
	err := p.w.Wait(ctx, b.ready)
	if err != nil && errors.Is(err, ErrNICGone) {
		p.fail()
		return nil // the end of the receive gives the error
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

// Close closes the Inbox. Messages that it has received and Next has not returned wait for other
// receives again, before all messages that arrived later. If one of them was truncated, its lost
// bytes stay lost. A second Close does nothing.
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
		_ = p.trim(limits.Temporaries) // a region that cannot be freed only costs memory
	}
	p.changed()
}

// giveUp reports to the NIC how much was read, and cancels the ring's receive unless it has
// ended.
func (b *Inbox) giveUp() {
	o := &b.op
	o.mu.Lock() // so that it is not settled, and its context not taken, in between
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
