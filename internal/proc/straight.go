package proc

import (
	"context"
	"sync"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// The straight way (vni.Straight) is for short messages and receives of a process whose NIC is in
// its own address space: the process calls the NIC. If the NIC refuses, the operation uses the
// long way, by context and command, which has no limits. The caller cannot tell the ways apart.

// Post sends a message to the process with a name in one step, by the straight way, if it can
// leave at once. Otherwise it returns false, and Send may send the message. parts are copied, so
// they may be reused at once.
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

// Flush sends everything that start forms have left to the NIC's next poll. A daemon polls all
// the time, and needs no Flush.
func (p *Process) Flush() {
	if way := p.opts.Straight; way != nil && !p.closed.Load() {
		way.Flush()
	}
}

// gathers holds buffers in which messages of several parts become contiguous.
var gathers = sync.Pool{New: func() any { return new([limits.TinyMessage]byte) }}

// Meet receives the next message if it arrives very soon, before a receive must be posted for it.
// Otherwise Met.From is nil, and Recv receives the message.
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

// sendStraight sends a message, or a reply, by the straight way. It returns false if that is not
// possible. parts are copied, so they may be reused at once.
func (p *Process) sendStraight(to Dest, tag uint64, parts [][]byte, flags uint32, hold bool) bool {
	way := p.opts.Straight
	// An invalid name is found elsewhere: no process has it.
	if way == nil || p.closed.Load() {
		return false
	}
	n, ok := p.readable(parts)
	if !ok {
		return false
	}
	room := way.Send(vni.StraightSend{To: to.Name, Gen: to.Gen, NIC: to.NIC, Slot: to.Slot, Tag: tag, Len: n,
		Hold: hold, Reply: flags&vni.IsReply != 0})
	if room == nil {
		return false
	}
	copyParts(room, parts)
	way.Sent()
	return true
}

// readable returns the number of bytes in the parts of a message. ok is false if they are too
// many for the straight way, or cannot be read.
func (p *Process) readable(parts [][]byte) (n int, ok bool) {
	for _, b := range parts {
		n += len(b)
	}
	all := p.registered.Load()
	return n, n <= limits.StagedMessage && (all == nil || all.readable(parts))
}

// callStraight is Call by the straight way. ok reports whether the call was made.
func (p *Process) callStraight(ctx context.Context, to *Dest, tag uint64, reply []byte,
	parts [][]byte) (m Message, err error, ok bool) {
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
	s := vni.StraightSend{To: to.Name, Gen: to.Gen, NIC: to.NIC, Slot: to.Slot, Tag: tag, Len: n, Token: token,
		Answer: &o.wanted}
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

// datagramStraight sends a datagram by the straight way. It returns false if that is not
// possible. parts are copied, so they may be reused at once.
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

// gatherLists holds lists for the parts of datagrams that go to the NIC. The caller's own list
// would move to the heap.
var gatherLists = sync.Pool{New: func() any { return new([limits.Descriptors][]byte) }}

// sendManyStraight sends messages by the straight way, and returns how many were sent.
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

// spareOps holds the Ops of blocking receives by the straight way, so that these allocate
// nothing.
var spareOps = sync.Pool{New: func() any { return new(Op) }}

// recvStraight posts a receive of a blocking form by the straight way. It returns nil if it
// cannot.
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

// spareOp takes an Op from spareOps for p.
func (p *Process) spareOp() *Op {
	o := spareOps.Get().(*Op)
	if o.ready == nil {
		o.ready = o.rungStraight
	}
	o.p = p
	return o
}

// spare returns o to spareOps.
func (o *Op) spare() {
	o.wanted.Buf, o.p = nil, nil
	o.pooled = false
	spareOps.Put(o)
}

// rungStraight is rung for an Op of spareOps.
func (o *Op) rungStraight() bool { return o.wanted.Done() || o.rung() }

// endStraight is endInto for an Op of spareOps. It is fast if the operation succeeds.
func (p *Process) endStraight(ctx context.Context, o *Op, m *Message) error {
	if err := p.w.Wait(ctx, o.ready); err != nil || !o.wanted.Done() || o.wanted.Result.Status != vni.StatusOK {
		return p.endInto(ctx, o, m) // it checks everything again
	}
	m.set(&o.wanted.Result)
	if m.IsCall() {
		p.answered.received(&m.Token)
	}
	o.spare()
	p.changed()
	return nil
}

// startStraight is recvStraight for a start form, whose Op is free.
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

// postWanted posts the receive for which o is prepared.
func (o *Op) postWanted() bool {
	w := &o.wanted
	if all := o.p.registered.Load(); (all == nil || all.look(w.Buf, true) == nil) && o.p.opts.Straight.Receive(w) {
		return true
	}
	o.straight, w.Buf = false, nil
	return false
}

// startStraightDatagram starts to receive a datagram by the straight way.
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

// want prepares o for a receive by the straight way.
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
	o.byUser = o.byUser || byUser && !o.p.closed.Load() // the end of the process came first
	o.p.mu.Unlock()
	o.p.opts.Straight.Cancel(&o.wanted)
}

// finishStraight writes the result of o, which has ended, into m. why is the error that ended the
// wait early, if any.
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

// releaseStraight releases the caller's memory. An Op to which the NIC may still write is not
// reused.
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

// straightIdle reports whether no operation is in flight by the straight way. It is used after
// the straight way is closed.
func (p *Process) straightIdle() bool { return p.opts.Straight == nil || p.opts.Straight.Idle() }
