package sweep

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// This file holds the workload's operations, in terms of the process half.

// op is an operation in flight, or one that was already done when it began.
type op struct {
	*proc.Op
	got got // if Op is nil
}

// got is the result of a receive.
type got struct {
	from string
	tag  uint64
	n    int
	full uint64
	msg  proc.Message
}

func nameOf(s string) vni.Name {
	n, err := vni.ParseName(s)
	if err != nil {
		panic(err)
	}
	return n
}

// wait waits for the operation's end. If ctx ends first, wait cancels the operation, and returns
// the outcome after that.
func (o *op) wait(ctx context.Context) (got, error) {
	if o.Op == nil {
		return o.got, nil
	}
	m, err := o.Wait(ctx)
	if done, _, _ := o.Test(); !done {
		o.Cancel()
		if m, err = o.Wait(context.Background()); errors.Is(err, proc.ErrCancelled) {
			err = ctx.Err()
		}
	}
	if errors.Is(err, proc.ErrTruncated) {
		err = nil
	}
	return got{m.From.String(), m.Tag, m.Len, m.Full, m}, err
}

// retry begins an operation. While all contexts are taken, it tries again.
func (lf *life) retry(begin func() (*proc.Op, error)) (*op, error) {
	for {
		o, err := begin()
		if err == nil {
			return &op{Op: o}, nil
		}
		if !errors.Is(err, proc.ErrQueueFull) {
			return nil, err
		}
		lf.proc.Runtime().Sleep(context.Background(), shortWait)
	}
}

func (lf *life) startSend(m *message, parts [][]byte, posted func()) (*op, error) {
	// Post works only over links that lose nothing.
	if to := nameOf(m.to); !m.accept && lf.half.Post(&to, m.tag, parts) {
		posted()
		return new(op), nil
	}
	return lf.retry(func() (o *proc.Op, err error) {
		if m.accept {
			o, err = lf.half.StartSendDelivered(proc.To(nameOf(m.to)), m.tag, parts...)
		} else {
			o, err = lf.half.StartSend(proc.To(nameOf(m.to)), m.tag, parts...)
		}
		if err == nil {
			posted()
		}
		return o, err
	})
}

func (lf *life) startReceive(r *receive, buf []byte) (*op, error) {
	from := source(r.from)
	// Meet works only over links that lose nothing.
	if m := lf.half.Meet(&from.Name, match(r), buf); m.From != nil {
		r.number, r.posted = lf.received, lf.now()
		lf.received++
		who, full := m.From, uint64(m.Len)
		msg := proc.Message{From: who.Name, NIC: who.NIC, Slot: who.Slot, Gen: who.Gen, Tag: m.Tag, Len: m.Len,
			Full: full}
		return &op{got: got{who.Name.String(), m.Tag, m.Len, full, msg}}, nil
	}
	return lf.retry(func() (*proc.Op, error) {
		o, err := lf.half.StartRecv(source(r.from), match(r), buf)
		if err == nil {
			r.number, r.posted = lf.received, lf.now()
			lf.received++
		}
		return o, err
	})
}

func (lf *life) putAt(ctx context.Context, to *target, at int, data []byte) error {
	return lf.half.Put(ctx, to.handle(), uint64(readBytes+at), data)
}

func (lf *life) getAt(ctx context.Context, from *target, at int, buf []byte) error {
	return lf.half.Get(ctx, from.handle(), uint64(at), buf)
}

// alloc makes the life's region.
func (lf *life) alloc() error {
	r, err := lf.half.Alloc(readBytes + writeBytes)
	if err != nil {
		return err
	}
	lf.region = newRegion(r, r.Bytes(), lf.w.noiseOfRegion())
	if lf.w.plan.hooks.Pool {
		if r, err = lf.half.Alloc(MaxMessage); err != nil {
			return err
		}
		lf.scattered = r.Bytes()
	}
	return nil
}

// watch reads the events that the NIC reports about others.
func (lf *life) watch() error {
	for !lf.ended && lf.w.phase != closing {
		ctx, cancel := lf.proc.Runtime().WithTimeout(context.Background(), watchTime)
		e, missed, err := lf.half.NextEvent(ctx)
		cancel()
		lf.missed += missed
		switch {
		case err == nil:
			lf.told(e)
		case isNICGone(err):
			return errEnded
		case !errors.Is(err, context.DeadlineExceeded):
			return err
		}
	}
	return nil
}

func eventName(e vni.Event) string {
	if e.Kind == vni.EventProcessGone {
		return e.Name.String()
	}
	return ""
}

// isNICGone reports whether an error means that the process's own NIC no longer serves it.
func isNICGone(err error) bool { return errors.Is(err, proc.ErrNICGone) }
