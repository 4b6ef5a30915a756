package proc

import (
	"context"
	"sync"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// The straight way (vni.Straight): a process whose NIC is in its own address space calls it, for short messages and for
// receives. What is refused there takes the long way, by context and command, which has no limits. Which way an
// operation has gone its caller cannot tell.

// Post sends a message to the process with a name in one step, by the straight way, if it can leave at once. Otherwise Send may. parts are
// copied, so they are free at once.
func (p *Process) Post(to *vni.Name, tag uint64, parts [][]byte) bool {
	way := p.opts.Straight
	if way == nil || p.closed.Load() {
		return false
	}
	if all := p.registered.Load(); all != nil && !all.readable(parts) {
		return false
	}
	if len(parts) == 1 {
		return way.Post(to, tag, parts[0])
	}
	n := 0
	for _, b := range parts {
		n += len(b)
	}
	if n > limits.TinyMessage {
		return false
	}
	whole := gathers.Get().(*[limits.TinyMessage]byte)
	defer gathers.Put(whole)
	copyParts(whole[:n], parts)
	p.copied.out.Add(uint64(n))
	return way.Post(to, tag, whole[:n])
}

// Flush has leave what start forms have left to the NIC's next poll. A daemon polls all the time.
func (p *Process) Flush() {
	if way := p.opts.Straight; way != nil && !p.closed.Load() {
		way.Flush()
	}
}

// gathers is where messages of several parts become one.
var gathers = sync.Pool{New: func() any { return new([limits.TinyMessage]byte) }}

// Meet receives the message that comes next, if it comes within a moment, and before a receive of it has to be posted. Otherwise
// Met.From is nil, and Recv receives it.
func (p *Process) Meet(from *vni.Name, match Match, buf []byte) vni.Met {
	way := p.opts.Straight
	if way == nil || p.closed.Load() {
		return vni.Met{}
	}
	if all := p.registered.Load(); all != nil && all.look(buf, true) != nil {
		return vni.Met{}
	}
	return way.Meet(from, match.Tag, match.Any, buf)
}

// sendStraight sends a message, or a reply, by the straight way, if it can go there. parts are copied, so they are free at once.
func (p *Process) sendStraight(to Dest, tag uint64, parts [][]byte, flags uint32, hold bool) bool {
	way := p.opts.Straight
	if way == nil || p.closed.Load() { // a name that cannot be is found out elsewhere: no process has it
		return false
	}
	n, ok := p.readable(parts)
	if !ok {
		return false
	}
	room := way.Send(vni.StraightSend{To: to.Name, Gen: to.Gen, NIC: to.NIC, Slot: to.Slot, Tag: tag, Len: n, Hold: hold, Reply: flags&vni.IsReply != 0})
	if room == nil {
		return false
	}
	copyParts(room, parts)
	way.Sent()
	return true
}

// readable is how many bytes the parts of a message have; not ok if they are too many for the straight way, or cannot be read.
func (p *Process) readable(parts [][]byte) (n int, ok bool) {
	for _, b := range parts {
		n += len(b)
	}
	all := p.registered.Load()
	return n, n <= limits.StagedMessage && (all == nil || all.readable(parts))
}

// callStraight is Call by the straight way, if it can go there: then the call has been made.
func (p *Process) callStraight(ctx context.Context, to *Dest, tag uint64, reply []byte, parts [][]byte) (m Message, err error, ok bool) {
	way := p.opts.Straight
	if way == nil || p.closed.Load() {
		return m, nil, false
	}
	if all := p.registered.Load(); all != nil && all.look(reply, true) != nil {
		return m, nil, false
	}
	n, ok := p.readable(parts)
	if !ok {
		return m, nil, false
	}
	o := p.spareOp()
	token := p.straightToken()
	o.want("call", to, Tagged(uint64(token)), reply)
	o.wanted.Takes = vni.TakesReply
	s := vni.StraightSend{To: to.Name, Gen: to.Gen, NIC: to.NIC, Slot: to.Slot, Tag: tag, Len: n, Token: token, Answer: &o.wanted}
	room := way.Send(s)
	if room == nil {
		o.spare()
		return m, nil, false
	}
	copyParts(room, parts)
	way.Sent()
	o.pooled = true
	err = p.endStraight(ctx, o, &m)
	return m, err, true
}

// datagramStraight sends a datagram by the straight way, if it can go there. parts are copied, so they are free at once.
func (p *Process) datagramStraight(to Dest, tag uint64, parts [][]byte, hold bool) bool {
	way := p.opts.Straight
	if way == nil || p.closed.Load() {
		return false
	}
	if all := p.registered.Load(); all != nil && !all.readable(parts) {
		return false
	}
	list := gatherLists.Get().(*[limits.Descriptors][]byte)
	m := vni.StraightSend{To: to.Name, Gen: to.Gen, NIC: to.NIC, Slot: to.Slot, Tag: tag, Hold: hold}
	k := copy(list[:], parts)
	for _, b := range list[:k] {
		m.Len += len(b)
	}
	sent := k == len(parts) && way.Datagram(m, list[:k])
	clear(list[:k])
	gatherLists.Put(list)
	return sent
}

// gatherLists are the parts of datagrams on their way to the NIC: the caller's list would be moved to the heap.
var gatherLists = sync.Pool{New: func() any { return new([limits.Descriptors][]byte) }}

// sendManyStraight is the same for messages, of which it returns how many have gone.
func (p *Process) sendManyStraight(to Dest, tag uint64, messages [][]byte) int {
	way := p.opts.Straight
	if way == nil || p.closed.Load() {
		return 0
	}
	if all := p.registered.Load(); all != nil {
		messages = all.readableFirst(messages)
	}
	return way.SendMany(vni.StraightSend{To: to.Name, Gen: to.Gen, NIC: to.NIC, Slot: to.Slot, Tag: tag}, messages)
}

// spareOps are those of blocking receives that took the straight way, so that they allocate nothing.
var spareOps = sync.Pool{New: func() any { return new(Op) }}

// recvStraight posts a receive of a blocking form by the straight way; nil if it cannot.
func (p *Process) recvStraight(from *Dest, match Match, buf []byte) *Op {
	if p.opts.Straight == nil || p.closed.Load() {
		return nil
	}
	o := p.spareOp()
	if !o.postStraight(from, match, buf) {
		o.spare()
		return nil
	}
	o.pooled = true
	return o
}

// spareOp takes one of them for p.
func (p *Process) spareOp() *Op {
	o := spareOps.Get().(*Op)
	if o.ready == nil {
		o.ready = o.rungStraight
	}
	o.p = p
	return o
}

// spare gives it back.
func (o *Op) spare() {
	o.wanted.Buf, o.p = nil, nil
	o.pooled = false
	spareOps.Put(o)
}

// rungStraight is rung for those.
func (o *Op) rungStraight() bool { return o.wanted.Done() || o.rung() }

// endStraight is endInto for those, which mostly end well.
func (p *Process) endStraight(ctx context.Context, o *Op, m *Message) error {
	if err := p.w.Wait(ctx, o.ready); err != nil || !o.wanted.Done() || o.wanted.Result.Status != vni.StatusOK {
		return p.endInto(ctx, o, m) // it looks again, at all of it
	}
	m.set(&o.wanted.Result)
	if m.IsCall() {
		p.answered.received(&m.Token)
	}
	o.spare()
	p.changed()
	return nil
}

// startStraight is the same for a start form, whose Op is free.
func (p *Process) startStraight(o *Op, from Dest, match Match, buf []byte) bool {
	if p.opts.Straight == nil || p.closed.Load() {
		return false
	}
	o.begin(p)
	if !o.postStraight(&from, match, buf) {
		o.done.Store(true) // free again
		return false
	}
	return true
}

func (o *Op) postStraight(from *Dest, match Match, buf []byte) bool {
	o.want("receive", from, match, buf)
	return o.postWanted()
}

// postWanted posts the receive that o is ready for.
func (o *Op) postWanted() bool {
	w := &o.wanted
	if all := o.p.registered.Load(); (all == nil || all.look(w.Buf, true) == nil) && o.p.opts.Straight.Receive(w) {
		return true
	}
	o.straight, w.Buf = false, nil
	return false
}

// startStraightDatagram begins to receive a datagram by the straight way.
func (p *Process) startStraightDatagram(o *Op, match Match, parts [][]byte) bool {
	if p.opts.Straight == nil || p.closed.Load() || len(parts) > 2 {
		return false
	}
	o.begin(p)
	o.want("receive datagram", &Dest{}, match, nil)
	w := &o.wanted
	w.Takes = vni.TakesDatagram
	switch len(parts) {
	case 2:
		w.Rest = parts[1]
		fallthrough
	case 1:
		w.Buf = parts[0]
	}
	if all := p.registered.Load(); (all == nil || all.look(w.Rest, true) == nil) && o.postWanted() {
		return true
	}
	o.straight, w.Buf, w.Rest = false, nil, nil
	o.done.Store(true) // free again
	return false
}

// want gets o ready for a receive by the straight way.
func (o *Op) want(what string, from *Dest, match Match, buf []byte) {
	o.straight, o.receive = true, true
	o.what, o.peer, o.nic, o.slot, o.gen, o.to = what, from.Name, from.NIC, from.Slot, from.Gen, nil
	o.byUser = false
	w := &o.wanted
	w.From, w.NIC, w.Slot, w.Gen, w.Buf = from.Name, from.NIC, from.Slot, from.Gen, buf
	w.Tag, w.AnyTag, w.Takes = match.Tag, match.Any, vni.TakesMessage
}

// cancelStraight asks the NIC to withdraw o.
func (o *Op) cancelStraight(byUser bool) {
	o.p.mu.Lock()
	o.byUser = o.byUser || byUser && !o.p.closed.Load() // the process's end came first
	o.p.mu.Unlock()
	o.p.opts.Straight.Cancel(&o.wanted)
}

// finishStraight takes the result of o, which has ended. why is what its waiting was cut short by.
func (o *Op) finishStraight(m *Message, why error) (err error) {
	if !o.wanted.Done() {
		err = o.unanswered(why)
	} else {
		c := &o.wanted.Result
		if m.set(c); m.IsCall() {
			o.p.answered.received(&m.Token)
		}
		if err = statusError(c.Status); c.Status == vni.StatusCancelled {
			err = o.whyCancelled(why)
		}
	}
	if err != nil {
		err = &OpError{Op: o.what, Peer: o.peer, NIC: o.nic, Slot: o.slot, Gen: o.gen, Err: err}
	}
	return err
}

// releaseStraight lets go of the caller's memory. One that the NIC may still write to is not used again.
func (o *Op) releaseStraight() {
	p := o.p
	if o.pooled && o.wanted.Done() {
		o.spare()
	} else {
		o.wanted.Buf = nil
		if o.wanted.Takes == vni.TakesDatagram {
			o.wanted.Rest = nil
		}
	}
	p.changed()
}

// straightIdle reports whether nothing is under way by the straight way, once it is closed.
func (p *Process) straightIdle() bool { return p.opts.Straight == nil || p.opts.Straight.Idle() }
