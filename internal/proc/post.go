package proc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// request describes an operation, on its caller's stack. The slices that a send gathers are a
// separate argument. Inside the request they would move to the heap, with one allocation for each
// message.
type request struct {
	what string
	with Dest
	code vni.Code
	// For a send: its token says that a reply is awaited. For a receive: it takes the reply to
	// the send that follows it.
	call bool

	receive bool // which of the two contexts it has
	send    vni.SendContext
	recv    vni.ReceiveContext

	group uint32 // number of the membership, for an operation of a group
	size  uint32 // of the group
	both  bool   // into also holds the outgoing bytes
	waits bool   // a goroutine waits for it until its end, and can refill it

	receivers []vni.Name // for a multicast
	inbox     *Inbox     // whose ring is posted
	run       [][]byte   // messages that one command sends

	into   []byte // destination of the bytes of a receive or GET
	length uint64
	staged bool // the NIC cannot access the bytes yet

	head uint32 // head of the command queue when it had no room

	own *Op // for a start form
	op  *Op // own, or the context's Op
}

// short reports whether the bytes go into the context region (QNIX-18).
func (r *request) short() bool {
	return (r.code == vni.CodeSend || r.code == vni.CodeMulticast || r.code == vni.CodeBroadcast && r.into == nil) &&
		r.length <= limits.ShortMessage
}

// lack is the resource that an operation lacked to begin.
type lack int

const (
	lackNothing lack = iota
	lackSend
	lackReceive
	lackRoom
	lacks
)

// gather sets r's length to that of parts. It returns the parts without empty ones, and few
// enough for one operation.
func (p *Process) gather(r *request, parts [][]byte) ([][]byte, error) {
	empty := false
	for _, b := range parts {
		r.length += uint64(len(b))
		empty = empty || len(b) == 0
	}
	if r.length > limits.MaxRegion {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrBadArgument, r.length, uint64(limits.MaxRegion))
	}
	if empty {
		parts = slices.DeleteFunc(slices.Clone(parts), func(b []byte) bool { return len(b) == 0 })
	}
	if p.direct && len(parts) > p.pieces && !r.short() {
		parts = [][]byte{slices.Concat(parts...)} // so rare that a copy is acceptable
	}
	return parts, nil
}

// to sets the memory that r fills.
func (r *request) to(b []byte) {
	if len(b) > 0 {
		r.into, r.length = b, uint64(len(b))
	}
}

// memory fills in how the NIC finds the bytes.
func (r *request) memory(pool int32, size int) {
	if r.receive {
		r.recv.PoolIndex, r.recv.Size, r.recv.Len = pool, uint32(size), r.length
	} else {
		r.send.PoolIndex, r.send.Size, r.send.Len = pool, uint32(size), r.length
	}
}

// start begins all of the operations or none. If it returns lackNothing and no error, they are
// posted. parts are the bytes of the operation that sends.
func (p *Process) start(parts [][]byte, rs ...*request) (lack, error) {
	for {
		l, err := p.startNow(parts, rs)
		if !p.reclaim(l) {
			return l, err
		}
	}
}

// startNow is start that uses only contexts that are free.
func (p *Process) startNow(parts [][]byte, rs []*request) (lack, error) {
	if all := p.registered.Load(); all != nil {
		for _, r := range rs {
			if err := all.lookAt(r, parts); err != nil {
				return lackNothing, err
			}
		}
	}
	p.mu.Lock()
	if l, err := p.take(rs); l != lackNothing || err != nil {
		p.mu.Unlock()
		return l, err
	}
	staged := false
	for _, r := range rs {
		p.fill(r, parts)
		staged = staged || r.staged
	}
	if staged {
		p.mu.Unlock()
		if l, err := p.stageAll(parts, rs); l != lackNothing || err != nil {
			p.abandon(rs)
			return l, err
		}
	}
	for _, r := range rs {
		p.post(r)
	}
	kick, starts := p.vp.MustKick(), rs[0].own != nil
	stays := kick && !p.direct && starts
	if stays {
		// The waiter accesses the segment, and Close may settle a start form by then, so that its
		// context is free.
		p.inside.Add(1)
	}
	p.mu.Unlock()
	switch {
	case kick:
		p.w.Kick()
	case starts && p.opts.Began != nil:
		p.opts.Began()
	}
	if stays {
		p.leave()
	}
	return lackNothing, nil
}

// stageAll copies bytes to memory that the NIC can access, without the lock. If it succeeds, it
// returns with the lock held.
func (p *Process) stageAll(parts [][]byte, rs []*request) (lack, error) {
	for _, r := range rs {
		if r.staged {
			if err := p.put(r, parts); err != nil {
				return lackNothing, err
			}
		}
	}
	p.mu.Lock()
	err := p.usable()
	if err == nil && p.room(rs) {
		return lackNothing, nil
	}
	p.mu.Unlock()
	if err != nil {
		return lackNothing, err
	}
	return lackRoom, nil
}

// take takes a context for each request, or none at all. The caller holds mu. So a call never
// holds a receive context while it waits for a send context of another call.
func (p *Process) take(rs []*request) (lack, error) {
	if err := p.usable(); err != nil {
		return lackNothing, err
	}
	if !p.room(rs) {
		return lackRoom, nil
	}
	for k, r := range rs {
		if l := p.takeOne(r); l != lackNothing {
			for _, r := range rs[:k] {
				p.vp.GiveBack(r.receive, r.op.ctx)
				p.started[r.op.list()][r.op.ctx].Store(nil)
			}
			return l, nil
		}
	}
	if r := rs[0]; r.receive && r.call {
		r.recv.Tag = uint64(rs[1].send.Token)
	}
	return lackNothing, nil
}

// room reports whether the command queue has room for the commands of rs and the reserve. The
// caller holds mu.
func (p *Process) room(rs []*request) bool {
	ok := p.vp.Room(len(rs) + p.reserve)
	rs[0].head = p.vp.KnownHead()
	return ok
}

func (p *Process) takeOne(r *request) lack {
	l, take, lacking := sendList, p.vp.TakeSend, lackSend
	if r.receive {
		l, take, lacking = receiveList, p.vp.TakeReceive, lackReceive
	}
	i, ok := take()
	if !ok {
		return lacking
	}
	r.op = &p.ops[l][i]
	if r.own != nil {
		r.op = r.own
		r.op.receive, r.op.ctx = r.receive, i
		p.started[l][i].Store(r.op)
	}
	o := r.op
	o.what, o.peer, o.nic, o.slot, o.gen, o.to = r.what, r.with.Name, r.with.NIC, r.with.Slot, r.with.Gen, r.receivers
	o.posted, o.asked, o.byUser = false, false, false
	o.upTo = r.receive || r.group != 0 || r.code == vni.CodeJoinGroup
	if !r.receive {
		r.send.Token = p.token(i, r.call)
	}
	return lackNothing
}

// fill tells the NIC where r's bytes are, or copies them to the context region. It does neither
// if the bytes must be staged. The caller holds mu.
func (p *Process) fill(r *request, parts [][]byte) {
	r.staged = false
	one := [1][]byte{r.into}
	if r.into != nil {
		parts = one[:]
	} else if r.length == 0 {
		parts = nil
	}
	switch {
	case r.inbox != nil:
		r.inbox.describe(r)
	case r.short():
		copyParts(p.vp.Inline(r.op.ctx), parts)
		p.copied.out.Add(r.length)
		r.memory(vni.NoPool, 1)
	case p.direct:
		p.vp.SetDirect(r.receive, r.op.ctx, parts)
		r.memory(vni.NoPool, len(parts))
	case r.length == 0:
		r.memory(vni.NoPool, 0)
	default:
		r.staged = !p.stagePage(r)
	}
}

func copyParts(to []byte, parts [][]byte) {
	for _, b := range parts {
		to = to[copy(to, b):]
	}
}

// post writes r's context and its command. The caller holds mu, and the queue has room.
func (p *Process) post(r *request) {
	i := r.op.ctx
	if r.receive {
		r.recv.Flags |= vni.WantNotify
		p.vp.SetReceive(i, &r.recv)
	} else {
		r.send.Flags |= vni.WantNotify
		p.vp.SetSend(i, &r.send)
	}
	r.op.posted = true
	code := r.code
	if r.short() {
		code = vni.CodeSendShort
		switch r.code {
		case vni.CodeBroadcast:
			code = vni.CodeBroadcastShort
		case vni.CodeMulticast:
			code = vni.CodeMulticastShort
		}
	}
	p.vp.Post(vni.Command{Code: code, Context: uint16(i), Group: r.group, Size: r.size})
}

// abandon undoes take and stageAll.
func (p *Process) abandon(rs []*request) {
	for _, r := range rs {
		r.op.release()
	}
}

// begin is start for blocking forms: it waits for a lacking resource. Only one goroutine waits
// for each resource. Otherwise each context that becomes free would wake all goroutines that need
// one, and each would look for it. A thousand goroutines would then achieve a hundredth of what a
// hundred do.
//
//	start ─► lacks a context ─► in line for that kind ─► the first ─► waits until one is free
//	           ▲                                                       └─► start … ─► begun:
//	           └── operations that begin now may be faster                 the next is first
func (p *Process) begin(ctx context.Context, parts [][]byte, rs ...*request) error {
	first := lackNothing // this caller is the first in the line for this resource
	defer func() { p.leaveLine(first) }()
	for {
		l, err := p.start(parts, rs...)
		if l == lackNothing {
			return err
		}
		if l == first {
			err = p.waitFor(ctx, l, rs[0].head)
			// The resource that it lacked before is available now, so the next in that line need
			// not wait any longer.
		} else {
			p.leaveLine(first)
			first = lackNothing
			if err = p.lines[l].Wait(ctx); err == nil {
				first = l
			}
		}
		if err != nil {
			return err
		}
	}
}

// beginBeside is begin for a caller that must end its own operations in flight. These may hold
// the lacking resource, and would hold it for ever while the caller waits for it. endOne ends one
// of them, and reports whether there was any. If endOne fails, nothing more is begun.
func (p *Process) beginBeside(ctx context.Context, parts [][]byte, r *request,
	endOne func() (ended bool, err error)) error {
	for {
		l, err := p.start(parts, r)
		if l == lackNothing || err != nil {
			return err
		}
		switch ended, err := endOne(); {
		case err != nil:
			return err
		case !ended:
			return p.begin(ctx, parts, r)
		}
	}
}

// leaveLine makes the next in line the first.
func (p *Process) leaveLine(l lack) {
	if l != lackNothing {
		p.lines[l].Open()
	}
}

// waitFor waits until another attempt may succeed. head is the head of the queue when it had no
// room.
func (p *Process) waitFor(ctx context.Context, l lack, head uint32) error {
	if !p.enter() {
		return ErrClosed
	}
	defer p.leave()
	ready := p.free[l]
	if l == lackRoom {
		// The NIC reads on without a request. The end of an operation that it has read wakes this
		// process; see New.
		ready = func() bool { return p.vp.Head() != head || p.over() }
	}
	p.watched.Add(1)
	err := p.w.Wait(ctx, ready)
	p.watched.Add(-1)
	if errors.Is(err, ErrNICGone) {
		p.fail()
		return nil // start returns the error
	}
	return err
}
