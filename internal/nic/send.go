package nic

import (
	"errors"
	"fmt"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A send is an entry of the scheduling queue (QNIX-40): a message, PUT, GET or name look-up of a
// process.
//
//	          name unknown          not the first to its destination, or not judged (departing.go)
//	idle ──┬─► unresolved ──┬──────► queued ──┐
//	       └────────────────┴─────────────────┴─► ready ◄─────────────────────────┐
//	                                                │ turns, one packet each       │
//	       ┌────────────────┬──────────────────┬────┴─────────┬────────────┐       │
//	       ▼                ▼                  ▼              ▼            ▼       │
//	    blocked           credit           permission       local        posted    │
//	    (window, link)    (none, and too   (asked for,      (receiver    (all out, │
//	       │               many requests)   not yet given)   not ready)   not all  │
//	       └────────────────┴──────────────────┴──────────────┴──────────  acked)  │
//	                                   └──────────────────────────────────────┼────┘
//	                                                                          ▼
//	                                                              completed: idle again
type sendState uint8

const (
	sendIdle       sendState = iota
	sendUnresolved           // in Engine.waiting: its receiver's name is not known yet
	sendQueued               // in its dest's queue, behind an older message to the same process
	sendReady                // in process.sched: takes turns
	sendBlocked              // in peer.blocked: the pair is not open, or its window is full
	sendCredit               // in remote.waiting: neither credit nor room for one more request
	// In expiry.short: a run that has used up the credit and waits a little for more.
	sendRoom
	// Every byte that is permitted and described is posted; more will be (QNIX-42, QNIX-22).
	sendPermission
	sendLocal // an inbound of another process of this NIC refers to it
	// Everything is posted: it waits for acknowledgement, acceptance, or both.
	sendPosted
	sendCopies   // a multicast with copies in progress
	sendUnjudged // in departures.unjudged: its process's guard has not judged it yet
	sendDelayed  // in departures.delayed: the guard delays it
)

// sendKind is the kind of operation of a send.
type sendKind uint8

const (
	kindMessage sendKind = iota
	kindPut
	kindGet
	kindResolve
	kindServe      // answers a GET of another NIC from a region; has no context
	kindCollective // an operation of a group, by internal/coll
	kindRun        // many messages by one command
	kindDatagram   // leaves at once, or not at all
	kindMulticast  // waits for its copies, each of which is a message
	kindProgram    // a message to a program, by internal/program
)

type send struct {
	node   node[send] // in the list that its state names
	queued node[send] // in dest.queue from the command until the envelope has left
	p      *process
	ctx    int
	state  sendState
	kind   sendKind

	notify   bool // the process wants its doorbell rung (QNIX-16)
	accept   bool // completes only when the destination has accepted it (decision 6)
	accepted bool
	released bool // rel no longer needs the memory
	inline   bool // the bytes are in the context region and need only one copy

	name vni.Name // of the receiver, as the process gave it
	gen  uint32   // of the receiver, if the process asks for one
	// A relay has missed its receiver: it has its number, and its credit is spent.
	again     bool
	requested bool // one of its permission requests is open at the peer
	long      bool // counted in remote.long
	dest      *dest
	env       wire.Envelope
	remote    wire.Remote // of a PUT or GET
	frag      rel.Fragment
	parts     [limits.Descriptors][]byte
	inb       *inbound // the inbound of a local message, or where a GET arrives
	answer    *receive // of a call: the receive of the reply, until the envelope has left
	// The NIC whose claim to the receiver's name is awaited, or the peer whose answer is awaited.
	watch   rel.Watching
	multi   *multicast // the multicast that it is, or of which it is a copy
	place   int        // of a copy: its receiver's place in the list
	refill  *refill    // its memory is a stretch
	run     *sendRun   // of a kindRun
	peer    *peer      // whose fragment id this send holds
	since   clock.Time // when its command was read
	departs departure  // while it waits to leave
}

func (s *send) init(p *process, ctx int) {
	s.p, s.ctx = p, ctx
	s.node.v, s.queued.v = s, s
}

// dest is what one process knows about another to which it sends: the number of its messages to it
// (decision 5), and those whose envelope has not left. Envelopes leave in the order of their
// commands, so the receiver's parking of early envelopes only has to make up for the network.
type dest struct {
	node   node[dest] // in process.blanks
	key    vni.Address
	peer   *peer   // nil: a process of this NIC
	remote *remote // nil: a process of this NIC
	number uint32  // of the next envelope
	sends  int     // in progress to it
	over   bool    // the process has gone: forget it with its last send
	// A run to it has waited for credit without success, and no message of a run has left since:
	// it does not wait again.
	inVain bool
	// When the session ends, the messages from number doubt on may not have been delivered.
	doubted bool
	doubt   uint32    // if doubted
	lone    wire.Lone // of messages to it
	queue   list[send]
}

// sendCommand executes a command on a send context: it loads the context, finds the memory, and
// starts the send.
func (e *Engine) sendCommand(s *send, c vni.Command) {
	var sc vni.SendContext
	if !e.loadSend(s, c.Code, &sc) {
		return
	}
	if s.kind == kindResolve {
		e.resolve(s)
		return
	}
	if err := e.gather(s, c, &sc); err != nil {
		e.rejectSend(s, err)
		return
	}
	switch c.Code {
	case vni.CodeSend, vni.CodeSendShort, vni.CodePut, vni.CodeGet:
		e.startSend(s, &sc)
	case vni.CodeSendRun:
		e.startRun(s, &sc, c.Size)
	case vni.CodeSendDatagram:
		e.startDatagram(s, &sc)
	case vni.CodeMulticast, vni.CodeMulticastShort:
		e.startMulticast(s, c.Size)
	case vni.CodeProgram:
		e.startProgram(s, &sc)
	default:
		s.dest, s.state, s.accept = nil, sendPosted, false
		e.groups.Command(&s.p.groups, s, c, &sc)
	}
}

// loadSend loads the send context of a command (QNIX-15) and makes the checks that all commands
// share. If ok is false, the command is over.
func (e *Engine) loadSend(s *send, code vni.Code, c *vni.SendContext) (ok bool) {
	err := s.p.vni.Send(s.ctx, c)
	if errors.Is(err, vni.ErrArgument) {
		s.notify, s.kind, s.env = true, kindMessage, wire.Envelope{}
		e.rejectSend(s, err)
		return false
	}
	if err != nil {
		e.detach(s.p, err)
		return false
	}
	s.load(c, code)
	s.since = e.now
	if int(c.Token&0xffff) != s.ctx || c.Token == 0 {
		e.rejectSend(s, fmt.Errorf("token %#x does not name send context %d", c.Token, s.ctx))
		return false
	}
	if c.Flags&vni.Refilled != 0 && code != vni.CodeSend && code != vni.CodePut && code != vni.CodeGet {
		e.rejectSend(s, fmt.Errorf("a %v cannot be refilled", code))
		return false
	}
	return true
}

// startSend puts a message, PUT or GET in line.
func (e *Engine) startSend(s *send, c *vni.SendContext) {
	switch {
	case s.kind != kindMessage:
		e.toAddress(s, vni.Address{NIC: c.Remote.NIC, Slot: c.Remote.Slot, Gen: c.Remote.Gen})
	case c.NIC != 0:
		e.toAddress(s, vni.Address{NIC: c.NIC, Slot: c.Slot, Gen: c.Gen})
	default:
		s.calls(vni.Address{})
		e.resolve(s)
	}
	if s.state == sendReady && s.dest.peer == nil {
		e.localAtOnce(s)
	}
}

// load fills in a send from its context, except for the data that depends on where the receiver
// is.
func (s *send) load(c *vni.SendContext, code vni.Code) {
	s.notify = c.Flags&vni.WantNotify != 0
	s.accept = c.Flags&vni.WantAccept != 0
	s.accepted, s.released, s.inline = false, false, code == vni.CodeSendShort ||
		code == vni.CodeBroadcastShort || code == vni.CodeMulticastShort
	s.requested = false
	s.kind, s.name, s.gen = kinds[code], c.Receiver, c.Gen
	s.env = wire.Envelope{}
	s.env.SrcSlot, s.env.SrcGen, s.env.Token, s.env.Tag = s.p.slot, s.p.gen, c.Token, c.Tag
	if c.Flags&vni.IsReply != 0 {
		s.env.Flags |= wire.FlagReply
	}
	if s.accept {
		s.env.Flags |= wire.FlagAccept
	}
	// The rest is empty: see clearSend.
	s.frag.Owner, s.frag.Space, s.frag.Length = s, wire.Data, c.Len
	s.remote = wire.Remote{}
	if s.kind == kindPut || s.kind == kindGet {
		s.remote = wire.Remote{Slot: c.Remote.Slot, Asker: s.p.slot, Gen: c.Remote.Gen, Region: c.Remote.Region,
			Token: c.Token, Key: c.Remote.Key, Offset: c.Remote.Offset, Length: c.Len}
	}
}

// kinds holds the kind of send of each command; the default is a message.
var kinds = [256]sendKind{vni.CodePut: kindPut, vni.CodeGet: kindGet, vni.CodeResolve: kindResolve,
	vni.CodeSendRun: kindRun, vni.CodeSendDatagram: kindDatagram,
	vni.CodeJoinGroup: kindCollective, vni.CodeBarrier: kindCollective, vni.CodeBroadcast: kindCollective,
	vni.CodeBroadcastShort: kindCollective, vni.CodeReduce: kindCollective, vni.CodeLeave: kindCollective}

// gather finds the memory of a send: the context region itself, Go slices of an embedded process,
// or descriptors.
func (e *Engine) gather(s *send, cmd vni.Command, c *vni.SendContext) (err error) {
	writes := s.writes(cmd, c)
	if c.Flags&vni.Refilled != 0 {
		if s.refill, err = e.newRefill(s.p, false, writes, s.ctx, c.Len); err == nil {
			s.frag.Slides = true
			s.slide()
		}
		return err
	}
	parts, err := e.memory(s.p, false, writes, s.ctx, s.inline, c.PoolIndex, c.Size, c.Len, s.parts[:0])
	s.frag.Parts = parts
	return err
}

// writes reports whether this NIC writes to the memory that the context of a command names. Such a
// command may not name read-only memory, which may be mapped read-only. A receive always writes.
func (s *send) writes(cmd vni.Command, c *vni.SendContext) bool {
	return s.kind == kindGet || s.kind == kindCollective && s.p.groups.Writes(cmd, c.Tag)
}

// memory turns the memory that a context names, which is read or written, into slices of total
// length n, and appends them to parts.
func (e *Engine) memory(p *process, receive, writes bool, ctx int, inline bool, pool int32, size uint32,
	n uint64, parts [][]byte,
) ([][]byte, error) {
	if inline {
		if n > limits.ShortMessage {
			return nil, fmt.Errorf("short message of %d bytes; at most %d", n, limits.ShortMessage)
		}
		return append(parts, p.vni.Inline(ctx, int(n))), nil
	}
	if d := p.vni.Direct(receive, ctx); d != nil {
		return clip(parts, d, n)
	}
	if pool != vni.NoPool {
		if pool < 0 {
			return nil, fmt.Errorf("buffer pool index %d; expected a page or %d", pool, vni.NoPool)
		}
		mem, err := p.region(vni.PoolRegion, uint64(pool)*limits.PageBytes, n, writes)
		return append(parts, mem), err
	}
	if size > limits.Descriptors {
		return nil, fmt.Errorf("%d descriptors; at most %d", size, limits.Descriptors)
	}
	ds, err := p.vni.Descriptors(receive, ctx, int(size), e.descs[:0])
	if err != nil {
		return nil, err
	}
	var sum uint64
	for _, d := range ds {
		mem, err := p.region(d.Region, d.Offset, d.Len, writes)
		if err != nil {
			return nil, err
		}
		parts = append(parts, mem)
		sum += d.Len
	}
	if sum != n {
		return nil, fmt.Errorf("descriptors hold %d bytes, the operation is of %d", sum, n)
	}
	return parts, nil
}

// clip appends the slices of an embedded process, which must have n bytes together.
func clip(parts, from [][]byte, n uint64) ([][]byte, error) {
	var sum uint64
	for _, b := range from {
		sum += uint64(len(b))
	}
	if sum != n || len(from) > limits.Descriptors {
		return nil, fmt.Errorf("%d slices of %d bytes in all, the operation is of %d", len(from), sum, n)
	}
	return append(parts, from...), nil
}

// resolve looks up the receiver's name (QNIX-14). If the name is not known, the send waits as long
// as it may still come: tables of some NICs have not arrived, or another NIC has mentioned the
// name.
func (e *Engine) resolve(s *send) {
	s.watch.Off()
	n := e.names.Find(&s.name)
	if n == nil || !n.Live() {
		if !e.awaitName(s) {
			e.completeSend(s, vni.StatusNameUnknown)
		}
		return
	}
	if s.kind == kindResolve {
		s.dest = nil
		s.env.DstSlot, s.env.DstGen, s.remote.Key = n.Slot, n.Gen, n.NIC
		e.completeSend(s, vni.StatusOK)
		return
	}
	if s.gen != 0 && s.gen != n.Gen {
		e.completeSend(s, vni.StatusStaleGeneration)
		return
	}
	e.toAddress(s, n.Address)
}

// toAddress puts a send in line for a process.
func (e *Engine) toAddress(s *send, k vni.Address) {
	d := s.p.destAt(k)
	if d == nil {
		var err vni.Status
		if d, err = e.newDest(s.p, k); err != vni.StatusOK {
			e.completeSend(s, err)
			return
		}
	}
	s.dest = d
	s.calls(k)
	d.sends++
	s.env.DstSlot, s.env.DstGen = k.Slot, k.Gen
	d.queue.pushBack(&s.queued)
	if (s.kind == kindMessage || s.kind == kindRun) && d.queue.front() != s {
		s.state = sendQueued
		return
	}
	e.depart(s)
}

// destAt returns the dest of a process that p has sent to before, or nil.
func (p *process) destAt(k vni.Address) *dest {
	if d := p.lastDest; d != nil && d.key == k {
		return d
	}
	d := p.dests[k]
	if d != nil {
		p.lastDest = d
	}
	return d
}

// newDest makes the dest of a process that p has not sent to yet.
func (e *Engine) newDest(p *process, k vni.Address) (*dest, vni.Status) {
	if len(p.dests) >= limits.Destinations {
		return nil, vni.StatusNoMemory
	}
	d := &dest{key: k, number: 1}
	d.node.v = d
	if k.NIC == e.cfg.ID {
		q := e.process(k.Slot)
		if q == nil || !q.served() {
			return nil, vni.StatusProcessGone
		}
		if q.gen != k.Gen {
			return nil, vni.StatusStaleGeneration
		}
	} else {
		pr := e.peerOf(k.NIC)
		if pr == nil {
			return nil, vni.StatusUnreachable
		}
		d.peer, d.remote = pr, pr.remote(remoteKey{k.Slot, k.Gen})
		d.remote.users++
		d.lone = wire.LoneOf(&wire.Envelope{DstSlot: k.Slot, DstGen: k.Gen, SrcSlot: p.slot, SrcGen: p.gen})
	}
	p.dests[k] = d
	return d, vni.StatusOK
}

// leaveDest notes that a send to a process has ended.
func (e *Engine) leaveDest(p *process, d *dest) {
	switch d.sends--; {
	case d.sends > 0:
	case d.over:
		e.forgetDest(p, d)
	case d.blank():
		e.leaveBlank(p, d)
	}
}

// blank reports whether only the address of a process is known: no message has left for it, so
// there is no number to remember.
func (d *dest) blank() bool { return d.number == 1 }

// leaveBlank keeps a dest of which only the address is known, until too many such have been used
// since: most addresses come from messages, but some are invented.
func (e *Engine) leaveBlank(p *process, d *dest) {
	if d.node.in == nil {
		p.blanks.pushBack(&d.node)
	}
	if p.blanks.n <= limits.BlankDestinations {
		return
	}
	o := p.blanks.front()
	o.node.remove()
	if o.sends == 0 && o.blank() { // else it was used meanwhile, and returns here if necessary
		e.forgetDest(p, o)
	}
}

// forgetDest drops p's state of a process. It also drops the NIC's state of it, if the process has
// gone or no other process of this NIC has sent to it.
func (e *Engine) forgetDest(p *process, d *dest) {
	if p.dests[d.key] != d { // it is forgotten already
		return
	}
	p.lastDest = nil
	delete(p.dests, d.key)
	d.node.remove()
	if rm := d.remote; rm != nil {
		rm.users--
		if (d.over || rm.unused()) && d.peer.remotes[rm.key] == rm {
			delete(d.peer.remotes, rm.key)
		}
	}
}

// forgetDests drops up to atMost destinations of a process that leaves. It reports whether those
// were all.
func (e *Engine) forgetDests(p *process, atMost int) (all bool) {
	for _, d := range p.dests { // order does not matter: only deletions
		if atMost--; atMost < 0 {
			return false
		}
		e.forgetDest(p, d)
	}
	return true
}

// wait puts a send into a state, and at the end of the list of that state, if there is one.
func (s *send) wait(state sendState, in *list[send]) {
	s.node.remove()
	if s.state = state; in != nil {
		in.pushBack(&s.node)
	}
}

// ready lets a send take turns.
func (e *Engine) ready(s *send) {
	s.wait(sendReady, &s.p.sched)
	e.turns.join(s.p)
}

// enveloped notes that the envelope of s has left, or will not. The next message to the same
// process may follow.
func (e *Engine) enveloped(s *send) {
	d := s.dest
	s.queued.remove()
	if n := d.queue.front(); n != nil && n.state == sendQueued {
		e.depart(n)
	}
	if d.remote != nil {
		e.admit(d.remote)
	}
}

// completeSend ends a send and tells its process.
func (e *Engine) completeSend(s *send, status vni.Status) {
	if s.multi != nil {
		e.copyEnded(s, status)
		return
	}
	c := vni.Completion{Status: status, Len: s.frag.Length, Full: s.frag.Length, Tag: s.env.Tag, Token: s.env.Token,
		Slot: s.env.DstSlot, Gen: s.env.DstGen}
	if s.run != nil {
		c.Len = uint64(s.run.sent)
		if e.cfg.Defect == mutate.RunMiscounted && s.run.sent < s.run.lengths.Count() {
			c.Len++
		}
	}
	if s.dest != nil {
		c.NIC = s.dest.key.NIC
	} else if s.kind == kindResolve {
		c.NIC = s.remote.Key
	}
	e.countSend(s, status)
	e.endSend(s, &c)
}

// endSend tells the process of a send how it ended.
func (e *Engine) endSend(s *send, c *vni.Completion) {
	p, ctx, notify := s.p, s.ctx, s.notify
	p.ended(c.Status)
	p.account.operation(s.kind, c.Status)
	e.clearSend(s)
	if !p.served() {
		return
	}
	if err := p.vni.Complete(false, ctx, c, notify); err != nil {
		e.detach(p, err)
		return
	}
	e.early.served = e.early.served || p.straight != nil
	if notify {
		e.ring(p)
	}
}

// clearSend removes a send from everything that refers to it.
func (e *Engine) clearSend(s *send) {
	s.node.remove()
	e.expiry.departures.drop(s)
	d := s.dest
	if s.queued.in != nil { // its envelope has not left, and need not
		if d.remote != nil && d.remote.admitted == s {
			d.remote.admitted = nil
		}
		e.enveloped(s)
	}
	if s.frag.ID != 0 && s.peer != nil {
		s.peer.out.remove(s.frag.ID)
		s.peer.ep.FreeFragment(s.frag.ID)
		e.unblockOne(s.peer)
	}
	s.watch.Off()
	e.requestClosed(s)
	e.longOver(s)
	if d != nil {
		e.leaveDest(s.p, d)
	}
	s.freeRun()
	forget(s.parts[:])
	e.freeRefill(s.refill)
	s.refill = nil
	s.state, s.dest, s.peer, s.inb, s.answer = sendIdle, nil, nil, nil, nil
	s.frag = rel.Fragment{}
}

// forget clears the slices of memory that a context named, up to the first nil slice.
func forget(parts [][]byte) {
	for i := range parts {
		if parts[i] == nil {
			return
		}
		parts[i] = nil
	}
}

// rejectSend ends a send whose arguments are wrong.
func (e *Engine) rejectSend(s *send, err error) {
	p := s.p
	e.completeSend(s, statusOf(err))
	e.badArgument(p, err)
}
