package nic

import (
	"cmp"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/coll"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Standing is the state of a process: its unfinished operations, and its places in groups. The
// lists are bounded; the oldest entries come first.
type Standing struct {
	Name vni.Name
	vni.Address
	PID    uint32
	Parked bool // a thread of the process sleeps until the NIC wakes it

	Groups     []coll.Standing
	MoreGroups int // groups that Groups does not list
	Waits      []Wait
	MoreWaits  int
	Unread     []Unread
	MoreUnread int
}

// Wait is an operation of a process that has not ended. A receive or an inbox may be posted while
// its process does something else.
type Wait struct {
	What string
	Why  string // of a send: what it waits for; of a receive: WhyArriving, or empty

	// The process that it waits for; zero: any, or a process without a known name.
	Peer        vni.Name
	At          vni.Address // its address; zero: not known
	Any         bool        // any process may end the wait
	Unreachable bool        // the NIC of that process does not answer

	Tag    uint64
	AnyTag bool // all tags of the port of Tag
	Bytes  uint64
	Left   int // receivers of a multicast that have not been served
	For    time.Duration
}

// The kinds of a Wait.
const (
	WaitReceive   = "receive"
	WaitReply     = "reply"    // to a call
	WaitProbe     = "probe"    // for a message to look at
	WaitDatagram  = "datagram" // receives a datagram
	WaitInbox     = "inbox"    // is open, and takes many messages
	WaitSend      = "send"
	WaitAnswer    = "answer" // sends a reply
	WaitPut       = "put"
	WaitGet       = "get"
	WaitName      = "name" // waits until a process has the name
	WaitMulticast = "multicast"
	WaitProgram   = "program" // sends to a program in a NIC
)

// Reasons why a Wait has not ended.
const (
	WhyName        = "name"        // no process has this name
	WhyOrder       = "order"       // an older message to the same process goes first
	WhyGuard       = "guard"       // a program that guards the process delays it
	WhyTurn        = "turn"        // it is about to leave
	WhyLink        = "link"        // no session with the NIC, or its window is full
	WhyRoom        = "room"        // the receiver has no room, and too many requests are open there
	WhyPermission  = "permission"  // the receiver has not permitted it yet
	WhyAccept      = "accept"      // it has left, and the receiver's NIC has not accepted it
	WhyAcknowledge = "acknowledge" // it has left, and the receiver's NIC has not acknowledged it
	WhyCopies      = "copies"      // some receivers of a multicast have not been served
	WhyArriving    = "arriving"    // the message has begun to arrive
)

// Unread is a message that waits for its process to receive it.
type Unread struct {
	From  vni.Name // zero: not known
	At    vni.Address
	Tag   uint64
	Bytes uint64
	For   time.Duration
}

// Standings returns the standing of each process of this NIC whose name wanted selects, ordered by
// slot.
func (e *Engine) Standings(now clock.Time, wanted func(vni.Name) bool) (l []Standing) {
	e.beginAt(now)
	for p := range e.procs.all {
		if p.slot != 0 && p.served() && wanted(p.name) {
			l = append(l, e.standing(p))
		}
	}
	return l
}

func (e *Engine) standing(p *process) Standing {
	s := Standing{Name: p.name, Address: e.addressOf(p), PID: p.pid, Parked: p.vni.Sleeping()}
	s.Groups, s.MoreGroups = e.groups.Standings(&p.groups, e.now, limits.StandingGroups)
	var all []Wait
	for r := range p.receives {
		if r.state != recvIdle {
			all = append(all, e.receiveWait(r))
		}
	}
	for c := range p.sends {
		if q := &p.sends[c]; q.state != sendIdle && q.kind != kindCollective {
			all = append(all, e.sendWait(q))
		}
	}
	slices.SortStableFunc(all, func(a, b Wait) int { return cmp.Compare(b.For, a.For) })
	s.Waits = all[:min(len(all), limits.StandingWaits)]
	s.MoreWaits = len(all) - len(s.Waits)
	for inb := range p.stray.all {
		if len(s.Unread) == limits.StandingUnread {
			break
		}
		s.Unread = append(s.Unread, Unread{From: inb.src.name, At: inb.src.address(), Tag: inb.env.Tag,
			Bytes: inb.length, For: e.now.Sub(inb.at)})
	}
	s.MoreUnread = p.stray.n - len(s.Unread)
	return s
}

func (src *source) address() vni.Address {
	return vni.Address{NIC: src.nic, Slot: src.key.slot, Gen: src.key.gen}
}

// receiveWait describes a receive of any kind, or a probe.
func (e *Engine) receiveWait(r *receive) Wait {
	w := Wait{What: r.kind(), Peer: r.sender, At: r.from, Tag: r.tags.Tag(), AnyTag: r.tags.Any(),
		Bytes: r.size, For: e.now.Sub(r.since)}
	if r.reply {
		w.Peer, w.At = r.callee()
		w.Tag = 0 // the token of the call, which tells a reader nothing
	} else {
		w.Any = !r.exact && r.sender.IsZero()
	}
	if r.state == recvMatched && r.inb != nil && r.inb.src != nil {
		w.Why, w.Peer, w.At, w.Any = WhyArriving, r.inb.src.name, r.inb.src.address(), false
		w.Tag, w.AnyTag = r.inb.env.Tag, false
	}
	e.completePeer(&w)
	return w
}

func (r *receive) kind() string {
	switch {
	case r.ring != nil:
		return WaitInbox
	case r.reply:
		return WaitReply
	case r.node.in == &r.p.probes:
		return WaitProbe
	case r.node.in == &r.p.bare:
		return WaitDatagram
	}
	return WaitReceive
}

// callee returns the process whose reply r waits for, as far as it is known.
func (r *receive) callee() (name vni.Name, at vni.Address) {
	switch {
	case r.call.dest != nil:
		return vni.Name{}, r.call.dest.key
	case r.wanted == nil: // it was posted by a command
		return r.called, r.calledAt
	}
	return vni.Name{}, vni.Address{}
}

var sendKinds = [...]string{kindMessage: WaitSend, kindPut: WaitPut, kindGet: WaitGet, kindResolve: WaitName,
	kindRun: WaitSend, kindDatagram: WaitSend, kindMulticast: WaitMulticast, kindProgram: WaitProgram}

var sendReasons = [...]string{sendUnresolved: WhyName, sendQueued: WhyOrder, sendReady: WhyTurn,
	sendBlocked: WhyLink, sendCredit: WhyRoom, sendRoom: WhyRoom, sendPermission: WhyPermission,
	sendLocal: WhyPermission, sendPosted: WhyAcknowledge, sendCopies: WhyCopies,
	sendUnjudged: WhyGuard, sendDelayed: WhyGuard}

// sendWait describes a send of a context.
func (e *Engine) sendWait(s *send) Wait {
	w := Wait{What: sendKinds[s.kind], Why: sendReasons[s.state], Peer: s.name, Tag: s.env.Tag,
		Bytes: s.frag.Length, For: e.now.Sub(s.since)}
	if s.kind == kindMessage && s.env.Flags&wire.FlagReply != 0 {
		w.What, w.Tag = WaitAnswer, 0
	}
	if s.state == sendPosted && s.accept && !s.accepted {
		w.Why = WhyAccept
	}
	if s.dest != nil {
		w.At = s.dest.key
	}
	if mc := s.multi; mc != nil {
		w.Bytes, w.Left = mc.length, mc.left
		for i := range mc.receivers {
			if v := &mc.receivers[i]; v.state != receiverEnded {
				w.Peer = v.name
				break
			}
		}
	}
	e.completePeer(&w)
	return w
}

// completePeer fills in the address of a name, or the name at an address, and whether its NIC
// answers.
func (e *Engine) completePeer(w *Wait) {
	n := e.names.At(w.At)
	if w.At == (vni.Address{}) && !w.Peer.IsZero() {
		if n = e.names.Find(&w.Peer); n != nil {
			w.At = n.Address
		}
	}
	if n != nil && w.Peer.IsZero() {
		w.Peer = n.Name
	}
	if w.At.NIC != 0 && w.At.NIC != e.cfg.ID {
		pr := e.peerOf(w.At.NIC)
		w.Unreachable = pr == nil || !pr.ep.Up()
	}
}
