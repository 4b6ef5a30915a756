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

// Op is an operation under way, as the start forms return it. Each must be waited for, or tested until it is done:
// until then its memory must stay. Its context is another's once it has ended and is lacking (reclaim.go). Its methods may be called
// from many goroutines.
//
//	begin ──► posted ──► done     posted: the NIC has it; done: the result is here, the context is free
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

	straight bool // it has gone the straight way, and has no context
	pooled   bool // it is one of spareOps
	wanted   vni.StraightReceive

	place  place
	refill *refill         // its memory is described while it goes on; of a blocking form
	ring   *vni.RingReader // reads what it receives, of an Inbox's
	out    []byte          // where a receive or GET copies staged bytes to
	upTo   bool            // only as many as the completion says

	posted, asked bool // under p.mu: the NIC knows of it; a Cancel has been posted
	byUser        bool // under p.mu: by Op.Cancel

	mu   sync.Mutex // of a start form: one at a time settles it
	done atomic.Bool
	msg  Message // once done
	err  error   // once done
	gen  uint32  // of slot
}

// Begun reports whether a start form has ever begun o. One that has not has nothing to wait for.
func (o *Op) Begun() bool { return o.p != nil }

// rung reports whether the operation of a blocking form has ended, one way or another.
func (o *Op) rung() bool {
	if o.straight {
		return o.wanted.Done() || o.p.dead.Load() || o.p.vp.Gone() != vni.StatusOK
	}
	return o.p.vp.Doorbell(o.receive, o.ctx) == vni.Done || o.p.dead.Load() || o.p.vp.Gone() != vni.StatusOK
}

// settled is rung for a start form, which another goroutine may settle meanwhile, so that the context is free or another's. done is set
// before the context becomes free: a doorbell that is not this operation's any more is followed by a done that is set.
func (o *Op) settled() bool { return o.done.Load() || o.rung() || o.done.Load() }

// wait waits for o. If that ends early it cancels o and waits on: the NIC answers every Cancel, by the completion
// that o would have had or by StatusCancelled (decision 9). One that does not within its patience is as good as gone: to
// give up this operation alone could lose its message. It returns why it ended early; the operation has ended in any case.
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

// promptly waits for o, which the NIC ends at once, as it has been asked to withdraw o, or o waits for no other process. ctx is its patience: one
// that does not answer is as good as gone, and nothing is waited for again.
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
	o.byUser = o.byUser || byUser && !p.closed.Load() // the process's end came first
	p.postCancel(o)
	kick := !p.released.Load() && p.vp.MustKick()
	p.mu.Unlock()
	if kick {
		p.w.Kick()
	}
}

// postCancel posts a Cancel for o, unless it has one or the NIC does not know o. Under mu. A Cancel that the NIC
// reads after the operation has ended does nothing, since the next command for the same context stands behind it in
// the queue.
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

// finish takes the result of an operation that has ended, into m, which is empty. why is what its waiting was cut short by.
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
			// The one copy on this side: the NIC of an attached process reaches shared memory only, not the caller's.
			n := uint64(len(o.place.mem))
			if o.upTo {
				n = min(n, c.Len)
			}
			p.copied.in.Add(uint64(copy(o.out, o.place.mem[:n])))
		}
		if c.Status == vni.StatusCancelled {
			err = o.whyCancelled(why)
		}
		if c.Tag < uint64(len(o.to)) && c.Status != vni.StatusBadArgument { // it says which could not be served
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

// unanswered is why an operation has ended of which the NIC says nothing.
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

// release gives back all that o holds. The context is free afterwards, and so is o, if a blocking form has it.
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
		_ = p.trim(keep) // one that cannot be freed costs memory only
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

// end waits for the operation of a blocking form and takes its result.
func (p *Process) end(ctx context.Context, o *Op) (m Message, err error) {
	err = p.endInto(ctx, o, &m)
	return m, err
}

// endInto is end that writes the message, which is empty, in its place: to pass it up by value costs a copy a call.
func (p *Process) endInto(ctx context.Context, o *Op, m *Message) error {
	err := o.finish(m, p.wait(ctx, o))
	o.release()
	return err
}

// settle finishes o if it has ended, and reports whether it is done. Of a start form.
func (o *Op) settle() bool {
	if o.done.Load() {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done.Load() || o.settleLocked()
}

// settleLocked is settle of an operation that is not done. Under o.mu.
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

// Wait waits until the operation has ended, and returns how. If ctx ends first, Wait returns its error and the
// operation goes on: Wait again, or Cancel it. Of a send, PUT or GET the Message means nothing.
func (o *Op) Wait(ctx context.Context) (Message, error) {
	m, err := o.Result(ctx)
	if m == nil {
		return Message{}, err
	}
	return *m, err
}

// Result is Wait that copies nothing: the Message is o's, until its next use; nil if it is not done, or not a receive.
func (o *Op) Result(ctx context.Context) (*Message, error) {
	for !o.settle() {
		p := o.p
		if !p.enter() {
			continue // released: settled by Close
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

// Ended reports whether the operation of a start form, which has begun, has ended. It takes no lock, and leaves it to Wait or Test to settle
// what has. Close may settle it meanwhile, and let the segment go, but not while Ended looks at that.
func (o *Op) Ended() bool {
	p := o.p
	p.looks.Add(1)
	ended := p.released.Load() || o.settled()
	p.looks.Add(-1)
	return ended
}

// Test reports whether the operation has ended, and how. It does not wait.
func (o *Op) Test() (done bool, m Message, err error) {
	if !o.settle() {
		return false, Message{}, nil
	}
	return true, o.msg, o.err
}

// Cancel asks for the operation to end. It then ends as it would have, or with ErrCancelled; Wait tells.
func (o *Op) Cancel() {
	o.mu.Lock() // so that it is not settled, and its context another's, in between
	defer o.mu.Unlock()
	if !o.done.Load() {
		o.p.cancel(o, true)
	}
}
