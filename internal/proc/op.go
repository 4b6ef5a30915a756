package proc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// Op is an operation in flight, as the start forms return it. The user must wait for each Op, or
// test it until it is done. Until then its memory must stay. After the operation has ended,
// another operation may take its context if contexts are lacking (reclaim.go). Many goroutines
// may call its methods concurrently.
//
//	begin ──► posted ──► done  posted: the NIC has it; done: the result is here, the context free
type Op struct {
	p       *Process
	receive bool
	ctx     int
	ready   func() bool

	what string // for errors, with the peer
	peer vni.Name
	nic  uint64
	slot uint16
	to   []vni.Name // instead of peer, of a multicast

	straight bool // it uses the straight way, and has no context
	pooled   bool // it is one of spareOps
	wanted   vni.StraightReceive

	place  place
	refill *refill         // describes its memory while it goes on; only for a blocking form
	ring   *vni.RingReader // reads the messages that it receives, for an Inbox
	out    []byte          // destination of the staged bytes of a receive or GET
	upTo   bool            // copies only as many bytes as the completion says

	posted, asked bool // under p.mu: the NIC knows it; a Cancel was posted
	byUser        bool // under p.mu: Op.Cancel asked

	mu   sync.Mutex // for a start form: one goroutine at a time settles it
	done atomic.Bool
	msg  Message // once done
	err  error   // once done
	gen  uint32  // of slot
}

// Begun reports whether a start form has ever begun o. Otherwise there is nothing to wait for.
func (o *Op) Begun() bool { return o.p != nil }

// rung reports whether the operation of a blocking form has ended, in any way.
func (o *Op) rung() bool {
	if o.straight {
		return o.wanted.Done() || o.p.dead.Load() || o.p.vp.Gone() != vni.StatusOK
	}
	return o.p.vp.Doorbell(o.receive, o.ctx) == vni.Done || o.p.dead.Load() || o.p.vp.Gone() != vni.StatusOK
}

// settled is rung for a start form. Another goroutine may settle the operation meanwhile, so that
// its context is free or belongs to another operation. done is set before the context becomes
// free. Therefore, if the doorbell that rung reads is not this operation's any more, the second
// read of done returns true.
func (o *Op) settled() bool { return o.done.Load() || o.rung() || o.done.Load() }

// wait waits for o. If the wait ends early, wait cancels o and continues to wait. The NIC answers
// every Cancel, with the completion that o would have had or with StatusCancelled (decision 9). A
// NIC that does not answer within the patience counts as gone: to abandon this operation alone
// could lose its message. wait returns why it ended early. In any case the operation has ended.
func (p *Process) wait(ctx context.Context, o *Op) (why error) {
	why = p.attend(ctx, o)
	if why == nil {
		return nil
	}
	if errors.Is(why, ErrNICGone) {
		p.fail()
		return why
	}
	p.cancel(o, false)
	ctx, cancel := p.patience()
	defer cancel()
	_ = p.promptly(ctx, o)
	return why
}

// promptly waits for o, which the NIC ends at once: either the NIC was asked to withdraw o, or o
// waits for no other process. ctx is the patience. A NIC that does not answer in this time counts
// as gone, and is not waited for again.
func (p *Process) promptly(ctx context.Context, o *Op) error {
	why := p.attend(ctx, o)
	if why != nil {
		p.fail()
	}
	return why
}

// cancel asks the NIC to withdraw o.
func (p *Process) cancel(o *Op, byUser bool) {
	if o.straight {
		o.cancelStraight(byUser)
		return
	}
	p.mu.Lock()
	o.byUser = o.byUser || byUser && !p.closed.Load() // the end of the process came first
	p.postCancel(o)
	kick := !p.released.Load() && p.vp.MustKick()
	p.mu.Unlock()
	if kick {
		p.w.Kick()
	}
}

// postCancel posts a Cancel for o, unless one was posted or the NIC does not know o. The caller
// holds mu. If the NIC reads the Cancel after the operation has ended, the Cancel does nothing,
// since the next command for the same context comes after it in the queue.
func (p *Process) postCancel(o *Op) {
	if !o.posted || o.asked || p.nicGone() != nil {
		return
	}
	o.asked = true
	c := vni.Command{Code: vni.CodeCancel, Context: uint16(o.ctx), Size: vni.CancelSend}
	if o.receive {
		c.Size = vni.CancelReceive
	}
	if !p.vp.Post(c) {
		panic("proc: no room for a Cancel in spite of the reserve")
	}
}

// finish writes the result of an ended operation into m, which must be empty. why is the error
// that ended the wait early, if any.
func (o *Op) finish(m *Message, why error) (err error) {
	p := o.p
	if o.straight {
		return o.finishStraight(m, why)
	}
	if p.vp.Doorbell(o.receive, o.ctx) == vni.Done {
		var c vni.Completion
		p.vp.ReadCompletion(o.receive, o.ctx, &c)
		if m.set(&c); o.receive && m.IsCall() {
			p.answered.received(&m.Token)
		}
		err = statusError(c.Status)
		if f := o.refill; f != nil && f.into != nil && (err == nil || c.Status == vni.StatusTruncated) {
			f.copyOut(min(c.Len, f.length))
		}
		if o.out != nil && (err == nil || c.Status == vni.StatusTruncated) {
			// This is the only copy on this side: the NIC of an attached process can access only
			// shared memory, not the caller's memory.
			n := uint64(len(o.place.mem))
			if o.upTo {
				n = min(n, c.Len)
			}
			p.copied.in.Add(uint64(copy(o.out, o.place.mem[:n])))
		}
		if c.Status == vni.StatusCancelled {
			err = o.whyCancelled(why)
		}
		if c.Tag < uint64(len(o.to)) && c.Status != vni.StatusBadArgument { // it names the failed receiver
			o.peer = o.to[c.Tag]
		}
	} else {
		err = o.unanswered(why)
	}
	if err != nil {
		err = &OpError{Op: o.what, Peer: o.peer, NIC: o.nic, Slot: o.slot, Gen: o.gen, Err: err}
	}
	return err
}

// unanswered returns the error of an operation that has ended without a completion from the NIC.
func (o *Op) unanswered(why error) error {
	err := o.p.nicGone()
	if err != nil && why != nil && !errors.Is(why, ErrNICGone) {
		err = fmt.Errorf("%w: it did not answer when the operation was cancelled: %w", err, why)
	}
	return err
}

func (o *Op) whyCancelled(why error) error {
	switch {
	case why != nil:
		return why
	case o.p.closed.Load() && !o.byUser:
		return ErrClosed
	}
	return ErrCancelled
}

// release gives back everything that o holds. Afterwards the context is free. If a blocking form
// owns o, o is free as well.
func (o *Op) release() {
	if o.straight {
		o.releaseStraight()
		return
	}
	p, l := o.p, o.list()
	o.out = nil
	p.mu.Lock()
	p.giveRefill(o)
	p.giveUp(&o.place)
	keep := limits.Temporaries
	if p.closed.Load() {
		keep = 0
	}
	tooMany := len(p.spare) > keep
	if tooMany {
		p.inside.Add(1)
	}
	o.posted = false
	if p.started[l][o.ctx].Load() == o {
		p.started[l][o.ctx].Store(nil)
	}
	p.vp.Release(o.receive, o.ctx)
	p.mu.Unlock()
	if tooMany {
		_ = p.trim(keep) // a region that cannot be freed only costs memory
		p.leave()
		return
	}
	p.changed()
}

func (o *Op) list() int {
	if o.receive {
		return receiveList
	}
	return sendList
}

// end waits for the operation of a blocking form and returns its result.
func (p *Process) end(ctx context.Context, o *Op) (m Message, err error) {
	err = p.endInto(ctx, o, &m)
	return m, err
}

// endInto is end that writes the message into m, which must be empty. To return the message by
// value would cost a copy for each call.
func (p *Process) endInto(ctx context.Context, o *Op, m *Message) error {
	err := o.finish(m, p.wait(ctx, o))
	o.release()
	return err
}

// settle finishes the operation of a start form if it has ended, and reports whether it is done.
func (o *Op) settle() bool {
	if o.done.Load() {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done.Load() || o.settleLocked()
}

// settleLocked is settle for an operation that is not done. The caller holds o.mu.
func (o *Op) settleLocked() bool {
	if !o.rung() {
		return false
	}
	o.err = o.finish(&o.msg, nil)
	if o.ring != nil {
		o.ring.Freeze()
	}
	o.done.Store(true)
	o.release()
	return true
}

// Wait waits until the operation has ended, and returns its result. If ctx ends first, Wait
// returns ctx's error and the operation goes on: call Wait again, or Cancel. The Message of a
// send, PUT or GET has no meaning.
func (o *Op) Wait(ctx context.Context) (Message, error) {
	m, err := o.Result(ctx)
	if m == nil {
		return Message{}, err
	}
	return *m, err
}

// Result is Wait without a copy: the Message belongs to o until o is used again. It is nil if the
// operation is not done, or is not a receive.
func (o *Op) Result(ctx context.Context) (*Message, error) {
	for !o.settle() {
		p := o.p
		if !p.enter() {
			continue // released: Close has settled it
		}
		err := p.w.Wait(ctx, o.ready)
		if errors.Is(err, ErrNICGone) {
			p.fail()
			err = nil
		}
		done := o.settle()
		p.leave()
		if err != nil && !done {
			return nil, &OpError{Op: o.what, Peer: o.peer, NIC: o.nic, Slot: o.slot, Gen: o.gen, Err: err}
		}
	}
	if !o.receive {
		return nil, o.err
	}
	return &o.msg, o.err
}

// Ended reports whether the operation of a start form, which has begun, has ended. It takes no
// lock, and does not settle the operation: Wait or Test does. Close may settle it meanwhile, and
// release the segment, but not while Ended accesses the segment.
func (o *Op) Ended() bool {
	p := o.p
	p.looks.Add(1)
	ended := p.released.Load() || o.settled()
	p.looks.Add(-1)
	return ended
}

// Test reports whether the operation has ended, and its result. It does not wait.
func (o *Op) Test() (done bool, m Message, err error) {
	if !o.settle() {
		return false, Message{}, nil
	}
	return true, o.msg, o.err
}

// Cancel requests the end of the operation. The operation then ends as it would have, or with
// ErrCancelled. Wait returns its result.
func (o *Op) Cancel() {
	o.mu.Lock() // so that it is not settled, and its context not taken, in between
	defer o.mu.Unlock()
	if !o.done.Load() {
		o.p.cancel(o, true)
	}
}
