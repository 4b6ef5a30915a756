package proc

import "github.com/weftnet/weft/internal/vni"

// An operation of a start form that has ended keeps its context until its user asks about it, which may be late: a stream asks about what it
// has sent when it sends again. So where a context is lacking, operations that have ended are settled for their users, which find them done:
//
//	taken ──► posted ──► ended ──► its user asks, or a context is lacking ──► settled: the result is in the Op, the context is free
//
// Else operations could wait for contexts that nothing gives back, though none of them is under way.

// listOf is the list of which a context is lacking.
func (l lack) listOf() (list int, ok bool) {
	switch l {
	case lackSend:
		return sendList, true
	case lackReceive:
		return receiveList, true
	}
	return 0, false
}

// reclaim settles the operations of start forms that keep a context of the kind that is lacking and have ended. It reports whether there were any.
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

// ended is the operation of a start form that has a context and has ended, or nil. It needs no lock, so it only says that reclaim is worth a
// try.
func (p *Process) ended(list, i int) *Op {
	if p.vp.Doorbell(list == receiveList, i) != vni.Done {
		return nil
	}
	return p.started[list][i].Load()
}

// reclaim settles o if it has ended and still has the context, which its user may have freed and begun anew with meanwhile. One that is being
// begun is not posted, and cannot be settled; one that is posted cannot be begun before it is settled, which takes o.mu. What else o is may be written
// without a lock meanwhile, where it begins by the straight way, and is looked at only if it has the context.
func (o *Op) reclaim(list, i int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.p
	p.mu.Lock()
	has := p.started[list][i].Load() == o && o.posted
	p.mu.Unlock()
	return has && o.settleLocked()
}

// anyFree reports whether a context is free, or can be reclaimed. It only loads atomics.
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
