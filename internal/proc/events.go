package proc

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/weftnet/weft/internal/vni"
)

// Watcher hands out the events of a process, each once. A process has any number of them, which do not take events from one another. One
// that does not keep up with the last vni.Events events is told how many it has missed.
type Watcher struct {
	p      *Process
	ready  func() bool
	closed atomic.Bool
	reader *vni.EventReader // under p.mu
}

// Watch returns a Watcher of the events from now on. That of a process which is closed has none, and looks at no segment: it may be unmapped.
func (p *Process) Watch() *Watcher {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return &Watcher{p: p}
	}
	return p.watcher(p.vp.EventsFromNow())
}

func (p *Process) watcher(r *vni.EventReader) *Watcher {
	w := &Watcher{p: p, reader: r}
	w.ready = func() bool { return r.Pending() || w.closed.Load() || p.over() }
	return w
}

// NextEvent waits for the next event and returns it, with how many were lost before it because nothing read them in
// time. The event of a session's end is there before anything of the next session with that NIC.
func (p *Process) NextEvent(ctx context.Context) (e vni.Event, lost uint64, err error) {
	return p.events.Next(ctx)
}

// PollEvent returns the next event if there is one. It does not wait. What the NIC published before its end can still
// be read.
func (p *Process) PollEvent() (e vni.Event, lost uint64, ok bool, err error) { return p.events.Poll() }

// Next waits for the next event of the watcher's, as NextEvent does.
func (w *Watcher) Next(ctx context.Context) (e vni.Event, lost uint64, err error) {
	p := w.p
	for {
		e, l, ok, err := w.Poll()
		lost += l
		if ok || err != nil {
			return e, lost, err
		}
		if !p.enter() {
			continue // closed: Poll says so
		}
		err = p.w.Wait(ctx, w.ready)
		if errors.Is(err, ErrNICGone) {
			p.fail()
			err = nil
		}
		p.leave()
		if err != nil {
			return vni.Event{}, lost, &OpError{Op: "event", Err: err}
		}
	}
}

// Poll returns the watcher's next event if there is one, as PollEvent does.
func (w *Watcher) Poll() (e vni.Event, lost uint64, ok bool, err error) {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() || w.closed.Load() {
		return e, 0, false, &OpError{Op: "event", Err: ErrClosed}
	}
	e, lost, ok = w.reader.Next()
	if !ok {
		if err = p.nicGone(); err != nil {
			err = &OpError{Op: "event", Err: err}
		}
	}
	return e, lost, ok, err
}

// Close ends the watcher: Next fails with ErrClosed.
func (w *Watcher) Close() {
	if !w.closed.Swap(true) {
		w.p.Wake()
	}
}
