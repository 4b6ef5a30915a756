package proc

import "github.com/weftnet/weft/internal/vni"

// When the operation of a start form has ended, it keeps its context until its user asks for the
// result. This may take long: a stream asks about its sent messages only when it sends again. So
// if contexts are lacking, ended operations are settled for their users, which then find them
// done:
//
//	taken ──► posted ──► ended ──► its user asks, or a context is lacking ──► settled:
//	                               the Op has the result, the context is free
//
// Otherwise operations could wait for contexts that are never given back, although no operation
// is in flight.

// listOf returns the list of contexts to which the lack applies.
func (l lack) listOf() (list int, ok bool) {
	switch l {
	case lackSend:
		return sendList, true
	case lackReceive:
		return receiveList, true
	}
	return 0, false
}

// reclaim settles ended operations of start forms that keep a context of the lacking kind. It
// reports whether there were any.
func (p *Process) reclaim(l lack) (any bool) {
	list, ok := l.listOf()
	if !ok || !p.enter() {
		return false
	}
	defer p.leave()
	for i := range p.started[list] {
		if o := p.ended(list, i); o != nil && o.reclaim(list, i) {
			any = true
		}
	}
	return any
}

// ended returns the operation of a start form that has a context and has ended, or nil. It takes
// no lock, so its result is only a hint that reclaim may succeed.
func (p *Process) ended(list, i int) *Op {
	if p.vp.Doorbell(list == receiveList, i) != vni.Done {
		return nil
	}
	return p.started[list][i].Load()
}

// reclaim settles o if it has ended and still has the context. Its user may meanwhile have freed
// the context and begun o again. An operation that is about to begin is not posted, and cannot be
// settled. A posted operation cannot begin again before it is settled, and settling takes o.mu.
// If o begins by the straight way, its other fields may be written without a lock meanwhile.
// reclaim reads them only if o has the context.
func (o *Op) reclaim(list, i int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.p
	p.mu.Lock()
	has := p.started[list][i].Load() == o && o.posted
	p.mu.Unlock()
	return has && o.settleLocked()
}

// anyFree reports whether a context is free or can be reclaimed. It only loads atomics.
func (p *Process) anyFree(list int) bool {
	if p.vp.AnyFree(list == receiveList) {
		return true
	}
	for i := range p.started[list] {
		if p.ended(list, i) != nil {
			return true
		}
	}
	return false
}
