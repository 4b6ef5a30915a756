package stream

import (
	"context"
	"errors"

	"github.com/weftnet/weft"
)

// A Write of more than a message has several messages under way. Each begins as soon as the peer has room for it, and the Write returns when
// all have left:
//
//	0 ───── ended ───────── begun ───────────── len(b)
//	   left   │   under way   │   not begun yet
//
// A message that was withdrawn may come nevertheless, as one behind which nothing was sent may: its bytes are sent again. Of several none can be
// withdrawn, or those behind it would come without it. So a Write with a deadline has one under way at a time, and one for which a
// deadline is set meanwhile waits for those that it has.

// pipeline is how many messages of one Write are under way at a time, at most.
const pipeline = 8

// flight is one of them.
type flight struct {
	op   weft.Op
	head [headBytes]byte
	n    int // bytes of the stream
}

// flights are those under way, by their numbers.
type flights struct {
	of           [pipeline]flight
	begun, ended int
}

func (w *flights) at(i int) *flight { return &w.of[i%pipeline] }
func (w *flights) under() int       { return w.begun - w.ended }

// errHole is of a Write of which something has left behind something that has not.
var errHole = errors.New("stream: a message was lost")

// writeLong is Write of more than a message.
func (c *Conn) writeLong(b []byte) (sum int, err error) {
	if c.ops == nil {
		c.ops = new(flights)
	}
	w, at := c.ops, 0
	for sum < len(b) {
		ctx, room, err := c.mayWrite(len(b) - at)
		if err != nil {
			return sum + c.unwind(w, nil), err
		}
		begun, left, err := c.advance(ctx, w, b[at:at+min(room, dataBytes)])
		at += begun
		sum += left
		if err != nil { // why a Write ends, if it does, mayWrite says
			sum += c.unwind(w, err)
			at = sum
		}
	}
	c.wrote(0, nil)
	return sum, nil
}

// advance takes the next step: it has b begin, or waits for the first of those under way to leave, or for room.
func (c *Conn) advance(ctx context.Context, w *flights, b []byte) (begun, left int, err error) {
	if len(b) > 0 && w.under() < atOnce(ctx) {
		if begun, err = c.begin(w, b); begun > 0 || err != nil {
			return begun, 0, err
		}
	}
	switch {
	case w.under() > 0:
		left, err = c.land(ctx, w)
	case len(b) > 0: // others have all the sends under way that the process may have
		begun, err = c.send(ctx, b)
		left = begun
		c.flew(begun)
	default:
		c.waitForRoom()
	}
	return begun, left, err
}

// atOnce is how many messages may be under way: one if a deadline may end ctx.
func atOnce(ctx context.Context) int {
	if _, ends := ctx.Deadline(); ends {
		return 1
	}
	return pipeline
}

// begin has one more message under way; n is 0 if there is no more room for such.
func (c *Conn) begin(w *flights, b []byte) (n int, err error) {
	f := w.at(w.begun)
	err = c.h.port.StartSendInto(&f.op, c.remote.Process, tagOf(kindData, c.peerNumber), head(&f.head, c.number, c.sent), b)
	if errors.Is(err, weft.ErrQueueFull) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	w.begun++
	f.n = len(b)
	c.flew(f.n)
	return f.n, nil
}

// flew notes that bytes are on their way: behind the begin of their message, since what is sent next tells the peer of them.
func (c *Conn) flew(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += uint64(n)
}

// land waits until the first message that is under way has left.
func (c *Conn) land(ctx context.Context, w *flights) (n int, err error) {
	f := w.at(w.ended)
	if _, err := f.op.Wait(ctx); err != nil {
		return 0, err
	}
	w.ended++
	return f.n, nil
}

// unwind ends what is under way, and returns how many bytes have left. Why is the error that makes it necessary, if any.
func (c *Conn) unwind(w *flights, why error) (left int) {
	if w.under() == 1 {
		w.at(w.ended).op.Cancel()
	}
	back := 0
	for ; w.ended < w.begun; w.ended++ {
		f := w.at(w.ended)
		switch err := c.outcome(f); {
		case err != nil:
			back += f.n
		case back > 0:
			why = errHole
		default:
			left += f.n
		}
	}
	c.wrote(-back, why)
	return left
}

// outcome waits until a message has left, or the stream has failed, which makes it of no use.
func (c *Conn) outcome(f *flight) error {
	for {
		ctx, failed := c.whileOpen()
		if failed {
			f.op.Cancel()
			ctx = c.h.ctx
		}
		if _, err := f.op.Wait(ctx); err == nil || failed || ctx.Err() == nil {
			return err
		}
	}
}

// whileOpen is a context that ends when the stream may have failed.
func (c *Conn) whileOpen() (ctx context.Context, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateFailed {
		return nil, true
	}
	c.interrupt()
	c.sendCtx, c.stopSend = context.WithCancel(c.h.ctx)
	return c.sendCtx, false
}
