package proc

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/weftnet/weft/internal/vni"
)

// Watcher returns the events of a process, each once. A process may have any number of Watchers,
// which do not take events from one another. If a Watcher does not keep up with the last
// vni.Events events, it reports how many it has missed.
type Watcher struct {
	p      *Process
	ready  func() bool
	closed atomic.Bool
	reader *vni.EventReader // under p.mu
}

// Watch returns a Watcher of the events from now on. The Watcher of a closed process returns no
// events. It accesses no segment, because the segment may be unmapped.
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

// NextEvent waits for the next event and returns it. lost is the number of earlier events that
// were overwritten before they were read. The event of a session's end precedes everything of the
// next session with that NIC.
func (p *Process) NextEvent(ctx context.Context) (e vni.Event, lost uint64, err error) {
	return p.events.Next(ctx)
}

// PollEvent returns the next event if there is one. It does not wait. After the end of the NIC,
// events that the NIC published earlier can still be read.
func (p *Process) PollEvent() (e vni.Event, lost uint64, ok bool, err error) { return p.events.Poll() }

// Next waits for the watcher's next event, as NextEvent does.
func (w *Watcher) Next(ctx context.Context) (e vni.Event, lost uint64, err error) {
	p := w.p
	for {
		e, l, ok, err := w.Poll()
		lost += l
		if ok || err != nil {
			return e, lost, err
		}
		if !p.enter() {
			continue // closed: Poll returns the error
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
