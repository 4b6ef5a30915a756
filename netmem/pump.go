package netmem

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/clock"
)

// pump decides which goroutine receives the packets of a port. Only one goroutine receives at a
// time. If a single call waits for an answer, its own goroutine receives: handing a packet to
// another goroutine takes longer than the network. Otherwise run, a goroutine of the port,
// receives. At a server, run always receives.
//
//	one call waits            ──► the call receives ──► its answer has arrived
//	another call waits too    ──► run receives, once the first has its answer
//	aloneFor calls were alone ──► run rests after the last, and the next call receives
//
// While no call waits, packets may lie in their buffers. They are late answers, which no call
// needs.
type pump struct {
	busy    bool       // a goroutine receives
	byRun   bool       // run does
	serves  bool       // run always receives
	waiting int        // calls that wait and do not receive
	alone   int        // calls in a row that began to wait while no other did
	free    *weft.Gate // opened when run should look

	dismissed atomic.Bool // run no longer receives, and has yet to notice
	// watched is the receive that run looks at. It is not reused, because run may look at it after
	// it was dismissed.
	watched *receive
}

// aloneFor is the number of calls in a row that must be alone before run rests. If there are two
// concurrent callers, one of them is often alone.
const aloneFor = 8

// lead reports whether a call that begins to wait must receive packets. It must if it is the only
// waiting call. The lock is held.
func (p *pump) lead() bool {
	if p.alone++; p.waiting > 0 || p.busy && !p.byRun {
		p.alone = 0
	}
	if p.busy || p.waiting > 0 {
		return false
	}
	p.busy = true
	return true
}

// rests reports whether run need not receive. The lock is held.
func (o *port) rests() bool {
	p := &o.pump
	return !p.serves && p.waiting == 0 && p.alone >= aloneFor && o.quiet() && o.err == nil
}

// served records that a call no longer waits. If run may rest now, served dismisses it, since the
// next call would find it busy. It reports whether run must be woken for that. The lock is held.
func (o *port) served() bool {
	p := &o.pump
	if p.waiting--; !p.byRun || !o.rests() {
		return false
	}
	p.busy, p.byRun = false, false
	p.dismissed.Store(true)
	return true
}

// quiet reports whether the driver only waits for packets. The lock is held.
func (o *port) quiet() bool { return o.driver.Idle() && o.driver.Next() == clock.Never }

// run receives packets while no call does, until the port or the process is closed. run defers no
// function: a panic may occur while the lock is held, and a deferred function would wait for the
// lock.
func (o *port) run() {
	o.end(o.pumps())
	// If the process was closed, and not the port, no other call ends the other goroutines.
	o.stop()
	_ = o.own.Close()
	o.release()
}

// pumps is the loop of run, and returns the error that ends it.
func (o *port) pumps() error {
	for {
		if o.begins() {
			if err := o.takeIn(o.ctx, false, o.pump.dismissed.Load, o.rests); err != nil {
				return err
			}
		}
		if err := o.pump.free.Wait(o.ctx); err != nil {
			return err
		}
	}
}

// begins makes run the receiver, unless a call receives or no packet is needed.
func (o *port) begins() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pump.busy || o.rests() && !o.arrived() {
		return false
	}
	o.pump.busy, o.pump.byRun = true, true
	return true
}

// arrived reports whether a packet lies in its buffer, or none can arrive any more. The lock is
// held.
func (o *port) arrived() bool { return len(o.recvs) > 0 && o.recvs[0].op.Ended() }

// stir wakes run if packets lie in their buffers and no call receives, or if the process has ended.
func (o *port) stir() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.pump.busy && (o.arrived() || !o.quiet()) {
		o.pump.free.Open()
	}
}

// wait waits until ready returns true or the port ends, and receives meanwhile if no other
// goroutine does. The rules for ready are those of WaitUntil.
func (o *port) wait(ctx context.Context, ready func() bool) error {
	if ready() {
		return nil
	}
	o.mu.Lock()
	if o.pump.lead() {
		o.mu.Unlock()
		return o.takeIn(ctx, true, ready, ready)
	}
	o.pump.waiting++
	open := !o.pump.busy
	o.mu.Unlock()
	if open {
		o.pump.free.Open()
	}
	err := o.p.Runtime().WaitUntil(ctx, func() bool { return ready() || o.failed.Load() })
	o.mu.Lock()
	if err == nil && !ready() {
		err = o.err
	}
	wake := o.served()
	o.mu.Unlock()
	if wake {
		o.p.Runtime().Wake()
	}
	return err
}

// takeIn receives packets until enough returns true or the port ends. It calls enough with the lock
// held. ready ends a wait for a packet. The caller, a call or run, is the receiver until takeIn
// returns.
func (o *port) takeIn(ctx context.Context, byCall bool, ready, enough func() bool) (err error) {
	for {
		o.mu.Lock()
		if !byCall {
			o.pump.watched = nil
			if o.pump.dismissed.Swap(false) {
				o.mu.Unlock()
				return nil
			}
		}
		// A failed port may have freed its memory.
		more := o.err == nil && o.driver.Interrupt(o.now())
		wake := o.wakes
		o.wakes = false
		ends := enough()
		switch {
		case ends:
			err = nil
		case err == nil:
			err = o.err
		}
		if ends = ends || err != nil; ends {
			o.pump.busy, o.pump.byRun = false, false
		}
		hands := ends && (o.pump.waiting > 0 || o.err != nil || !o.quiet())
		w := o.awaits()
		if !byCall && !ends && !more {
			o.pump.watched = w.first
		}
		o.mu.Unlock()
		if wake && (!ends || hands) { // otherwise the answer is the caller's own
			o.p.Runtime().Wake()
			runtime.Gosched() // woken callers run now, so their next requests leave together
		}
		if hands {
			o.pump.free.Open()
		}
		if ends {
			return err
		}
		if !more {
			err = o.await(ctx, w, ready)
		}
	}
}

// sendPause is the pause between two looks at sends that have not left.
const sendPause = 100 * time.Microsecond

// awaited is the receive of the next packet, and the longest time to wait for it; 0 means no limit.
type awaited struct {
	first *receive
	most  time.Duration
}

// awaits returns the receive to wait for and the longest time to wait. The lock is held.
func (o *port) awaits() (w awaited) {
	if len(o.recvs) > 0 {
		w.first = o.recvs[0]
	}
	switch next := o.driver.Next(); {
	case w.first == nil || !o.driver.Idle():
		w.most = sendPause
	case next != clock.Never:
		w.most = max(next.Sub(o.now()), 0) + 1
	}
	return w
}

// await waits for the next packet, for ready, or until the driver has other work.
func (o *port) await(ctx context.Context, w awaited, ready func() bool) error {
	within := ctx
	if w.most > 0 {
		var cancel context.CancelFunc
		within, cancel = o.p.Runtime().WithTimeout(ctx, w.most)
		defer cancel()
	}
	err := o.p.Runtime().WaitUntil(within, func() bool {
		return w.first != nil && w.first.op.Ended() || ready()
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}
