package proc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// request is what an operation asks for, on its caller's stack. The slices that a send gathers go beside it, as an
// argument: in it they would be moved to the heap, one allocation a message.
type request struct {
	what string
	with Dest
	code vni.Code
	call bool // of a send: its token says that a reply is awaited; of a receive: it takes the reply to the send behind it

	receive bool // which of the two contexts it has
	send    vni.SendContext
	recv    vni.ReceiveContext

	group uint32 // number of the membership, of an operation of a group
	size  uint32 // of the group
	both  bool   // into also has the bytes that go out
	waits bool   // a goroutine waits for it to its end, and can refill it

	receivers []vni.Name // of a multicast
	inbox     *Inbox     // whose ring is posted
	run       [][]byte   // messages that one command sends

	into   []byte // of a receive or GET: the bytes come to it
	length uint64
	staged bool // the bytes are not yet where the NIC can reach them

	head uint32 // of the command queue, when there was no room

	own *Op // a start form's
	op  *Op // own, or that of the context
}

// short reports whether the bytes go into the context region (QNIX-18).
func (r *request) short() bool {
	return (r.code == vni.CodeSend || r.code == vni.CodeMulticast || r.code == vni.CodeBroadcast && r.into == nil) && r.length <= limits.ShortMessage
}

// lack is what kept an operation from beginning.
type lack int

const (
	lackNothing lack = iota
	lackSend
	lackReceive
	lackRoom
	lacks
)

// gather makes r's length that of parts, and returns them without the empty ones and few enough to be named.
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
		parts = [][]byte{slices.Concat(parts...)} // rare enough to be copied
	}
	return parts, nil
}

// to gives r the memory that it fills.
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

// start begins operations: all of them, or none. If it lacks nothing and there is no error, they are posted. parts
// are the bytes of the one that sends.
func (p *Process) start(parts [][]byte, rs ...*request) (lack, error) {
	for {
		l, err := p.startNow(parts, rs)
		if !p.reclaim(l) {
			return l, err
		}
	}
}

// startNow is start that does with the contexts that are free.
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
		p.inside.Add(1) // the waiter looks at the segment, and Close may settle a start form by then, whose context is free so
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

// stageAll brings bytes to where the NIC can reach them, without the lock. It returns with the lock if all went well.
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

// take takes a context for each request, or none at all. Under mu. So a call never holds a receive context while it
// waits for a send context that another call holds.
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

// room reports whether there is room for the commands of rs and the reserve behind them. Under mu.
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

// fill tells the NIC where r's bytes are, or that they are in the context region now, unless they must be staged.
// Under mu.
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

// post writes r's context and its command. Under mu, with room.
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

// begin is start for blocking forms: what is lacking is waited for, by one at a time. Else each context that comes free would wake all that want one, and
// have each of them look for it: of a thousand goroutines a hundredth would get done what a hundred do.
//
//	start ─► lacks a context ─► in line for that kind ─► the first ─► waits until one is free ─► start …
//	           ▲                                                                                  └─► begun: the next is the first
//	           └── others that begin now may be quicker
func (p *Process) begin(ctx context.Context, parts [][]byte, rs ...*request) error {
	first := lackNothing // of the line of those that lack this
	defer func() { p.leaveLine(first) }()
	for {
		l, err := p.start(parts, rs...)
		if l == lackNothing {
			return err
		}
		if l == first {
			err = p.waitFor(ctx, l, rs[0].head)
		} else { // what it lacked it would have now, and others that lack that need not wait any longer
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

// beginBeside is begin of a caller that has operations under way which it ends itself: what is lacking those may keep, and would keep for good while the
// caller waits for it. endOne ends one of them, and says whether there was any; by its error nothing more is begun.
func (p *Process) beginBeside(ctx context.Context, parts [][]byte, r *request, endOne func() (ended bool, err error)) error {
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

// leaveLine lets the next in line be the first.
func (p *Process) leaveLine(l lack) {
	if l != lackNothing {
		p.lines[l].Open()
	}
}

// waitFor waits until it is worth trying again. head is that of the queue when it had no room.
func (p *Process) waitFor(ctx context.Context, l lack, head uint32) error {
	if !p.enter() {
		return ErrClosed
	}
	defer p.leave()
	ready := p.free[l]
	if l == lackRoom {
		// The NIC reads on without being asked, and the end of something that it has read wakes us; see New.
		ready = func() bool { return p.vp.Head() != head || p.over() }
	}
	p.watched.Add(1)
	err := p.w.Wait(ctx, ready)
	p.watched.Add(-1)
	if errors.Is(err, ErrNICGone) {
		p.fail()
		return nil // start says it
	}
	return err
}
