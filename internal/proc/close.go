package proc

import (
	"errors"
	"runtime"
	"slices"

	"github.com/weftnet/weft/internal/vni"
)

// enter allows the caller to access the segment without owning a context, until leave. It returns
// false once the segment has been released.
func (p *Process) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released.Load() {
		return false
	}
	p.inside.Add(1)
	return true
}

func (p *Process) leave() {
	p.mu.Lock()
	p.inside.Add(-1)
	p.mu.Unlock()
	p.changed()
}

// Closed reports whether Close has been called.
func (p *Process) Closed() bool { return p.closed.Load() }

// changed is called when a context has become free or a call has left. Other calls may wait for
// that.
func (p *Process) changed() {
	if p.watched.Load() > 0 {
		p.w.Wake()
	}
	if p.closed.Load() {
		p.letGo()
	}
}

// isIdle reports whether no call of this process accesses the segment any more, except one:
// Close. A context's doorbell becomes Free by the last access of its operation.
func (p *Process) isIdle() bool { return p.inside.Load() <= 1 && p.allFree() && p.straightIdle() }

func (p *Process) allFree() bool {
	for _, receive := range []bool{false, true} {
		for i := range p.ops[sendList] {
			if p.vp.Doorbell(receive, i) != vni.Free {
				return false
			}
		}
	}
	return true
}

// letGo calls Options.Released once its conditions hold.
func (p *Process) letGo() {
	p.mu.Lock()
	now := p.closed.Load() && !p.released.Load() && p.inside.Load() == 0 &&
		!slices.ContainsFunc(p.regions, isOuter) && (p.direct || p.inboxes == 0) && p.allFree() && p.straightIdle()
	if now {
		p.released.Store(true)
	}
	p.mu.Unlock()
	if now && p.opts.Released != nil {
		for p.looks.Load() > 0 { // each takes only a few loads
			runtime.Gosched()
		}
		p.opts.Released()
	}
}

// Close ends the process's use of its segment. It cancels every operation in flight, waits until
// no call is inside, and releases the segment. Blocked calls, and all later ones, end with
// ErrClosed. Regions stay until they are closed, except the regions of groups. A second Close
// does nothing. If the NIC is gone, Close does not wait: calls that are still inside notice this
// themselves, and the last of them releases the segment.
func (p *Process) Close() error {
	p.mu.Lock()
	if p.closed.Load() {
		p.mu.Unlock()
		return nil
	}
	p.closed.Store(true)
	p.inside.Add(1) // Close accesses the segment itself
	started := p.cancelAll()
	p.mu.Unlock()
	if p.opts.Straight != nil {
		p.opts.Straight.Close()
	}
	p.watched.Add(1)
	p.w.Kick()
	p.w.Wake()
	ctx, cancel := p.patience()
	defer cancel()
	for _, o := range started {
		_ = p.promptly(ctx, o)
		o.settle()
	}
	why := p.w.Wait(ctx, p.idle)
	if why != nil {
		p.fail()
	}
	err := p.trim(0)
	if why == nil {
		err = errors.Join(err, p.closeInner())
	}
	p.watched.Add(-1)
	p.leave()
	return err
}

// cancelAll posts a Cancel for every operation in flight, and returns those that start forms
// began. The caller holds mu.
func (p *Process) cancelAll() (started []*Op) {
	for l := range p.ops {
		for i := range p.ops[l] {
			o := &p.ops[l][i]
			// An operation that is not posted finds out by itself, and gives up.
			if s := p.started[l][i].Load(); s != nil && s.posted {
				o = s
				started = append(started, s)
			}
			p.postCancel(o)
		}
	}
	return started
}
