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

// pump is which goroutine takes in the packets that come to a port. One does at a time. Where a single call waits for an answer it is the
// goroutine of that call: what comes need not be handed from one goroutine to another, which takes longer than the network. Else it is run, a
// goroutine of the port's own, as it always is at a server:
//
//	a call waits, and no other does ──► the call takes in packets ──► its answer has come
//	another waits beside it         ──► run does, from when the first has its answer
//	calls were alone, so many in a row, and the last one has its answer ──► run rests, and the next call does
//
// While no call waits, packets may lie in their buffers: they are late answers, of which nothing depends.
type pump struct {
	busy    bool       // one takes in packets
	byRun   bool       // it is run
	serves  bool       // it is run, for good
	waiting int        // calls that wait and do not take in packets
	alone   int        // calls in a row that began to wait when no other did
	free    *weft.Gate // opened when run should look

	dismissed atomic.Bool // run does not take in packets any more, and has yet to notice
	watched   *receive    // by run, which may go on looking at it when it is dismissed: it is not begun again
}

// aloneFor is how many calls in a row have to be alone for run to rest. Of calls that are under way two at a time one is often alone.
const aloneFor = 8

// lead has a call that begins to wait take in packets, if it is alone. The lock is held.
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

// rests reports whether run need not take in packets. The lock is held.
func (o *port) rests() bool {
	p := &o.pump
	return !p.serves && p.waiting == 0 && p.alone >= aloneFor && o.quiet() && o.err == nil
}

// served notes that a call waits no longer, and has run rest if it may: the next call would find it busy otherwise. It reports whether run has to
// be woken for that. The lock is held.
func (o *port) served() bool {
	p := &o.pump
	if p.waiting--; !p.byRun || !o.rests() {
		return false
	}
	p.busy, p.byRun = false, false
	p.dismissed.Store(true)
	return true
}

// quiet reports whether the driver has nothing to do but to wait for packets. The lock is held.
func (o *port) quiet() bool { return o.driver.Idle() && o.driver.Next() == clock.Never }

// run takes in packets wherever no call does, until the port is closed, or the process. It defers nothing: a panic comes with the lock held, and would wait for it.
func (o *port) run() {
	o.end(o.pumps())
	_ = o.own.Close()
	o.release()
}

// pumps does what run does, and returns why it ends.
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

// begins has run take in packets, unless a call does, or none has to.
func (o *port) begins() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pump.busy || o.rests() && !o.arrived() {
		return false
	}
	o.pump.busy, o.pump.byRun = true, true
	return true
}

// arrived reports whether a packet lies in its buffer, or none can come any more. The lock is held.
func (o *port) arrived() bool { return len(o.recvs) > 0 && o.recvs[0].op.Ended() }

// stir has run look if packets lie in their buffers that no call takes in, or if the process has ended.
func (o *port) stir() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.pump.busy && (o.arrived() || !o.quiet()) {
		o.pump.free.Open()
	}
}

// wait waits until ready returns true, or nothing comes any more, and takes in packets meanwhile if no other goroutine does. ready is as that of
// weft.Process.WaitUntil.
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

// takeIn takes in packets until enough, which is asked with the lock held, or until something ends it. ready is what else ends its waiting for a packet.
// The caller is the one that takes in packets, a call or run, and is not any more when takeIn returns.
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
		more := o.err == nil && o.driver.Interrupt(o.now()) // the memory of one that has failed is given back
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
		if wake && (!ends || hands) { // else it is the caller's alone
			o.p.Runtime().Wake()
			runtime.Gosched() // here and now those run that were woken, and what they ask for next leaves together
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

// sendPause is after what time a port looks again whether what it sends has left.
const sendPause = 100 * time.Microsecond

// awaited is what the next packet comes to, and for how long it may be waited for; 0: as long as it takes.
type awaited struct {
	first *receive
	most  time.Duration
}

// awaits is what is to be waited for. The lock is held.
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

// await waits for the next packet, for ready, or for what else the driver has to do.
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
