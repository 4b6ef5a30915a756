package nic

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/relay"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A multicast is one command that sends one message to each of its receivers. They need not be a
// group, and they receive an ordinary message (QNIX-8, QNIX-11).
//
//	              short, on credit             has it
//	receiver ──┬──────────────────► relayed ───────────────────────────┐
//	           │                       │ missed: again, same number    ├─► ended; the last ends
//	           └──────────────────► its own copy ──────────────────────┘   the command
//	              else
//
// A relay (internal/relay) takes the message down a tree of NICs and costs the source the
// logarithm of their number. It serves messages that may leave without permission: at most
// StagedMessage bytes, with credit for the receiver, and no earlier message to it that waits.
// Receivers take as much of a longer message as they have room for, so each gets a separate copy.
//
// A copy (copies.go) is a send like that of a context, by all the rules of a message. All copies
// start with the command, so they have their places before later sends of the process to the same
// receivers, and no copy waits for another. The exception is a process with limits.MulticastCopies
// copies in flight: its further multicasts wait for some to end, and a message that it sends
// meanwhile may pass them. If that message were held back too, it could wait for receivers that
// wait for it.
type multicast struct {
	node      node[multicast] // in process.held
	s         *send           // of its context
	receivers []receiver
	todo      []uint16     // places of the receivers that get a copy
	begun     int          // of todo
	started   bool         // the command has been executed
	left      int          // receivers that have not ended
	relay     *relay.Relay // to the relayed receivers, until it is over
	relayed   []uint16     // places of the relayed receivers, in the order of the relay's list
	parts     [limits.Descriptors][]byte
	n         int // of parts
	length    uint64
	tag       uint64
	failed    vni.Status // status of the first receiver in the list that could not be served
	which     int        // place of that receiver
}

// receiver is one receiver of a multicast.
type receiver struct {
	name   vni.Name
	state  receiverState
	number uint32 // of the message to it, if it is relayed
	dest   *dest  // if it is relayed
}

type receiverState uint8

const (
	receiverWaits   receiverState = iota // for a copy
	receiverRelayed                      // a relay to it is in flight
	// A relay has missed it: it waits for a copy with the same number.
	receiverMissed
	receiverCopied // has a separate copy
	receiverEnded
)

var errMulticast = errors.New("nic: multicast with a bad list of receivers")

// startMulticast executes a Multicast to size receivers: it copies the list out of the process's
// memory, checks it, and starts.
func (e *Engine) startMulticast(s *send, size uint32) {
	p, list := s.p, uint64(size)*vni.ReceiverBytes
	if size == 0 || size > limits.MulticastReceivers || list > s.frag.Length || s.accept || s.env.Flags != 0 {
		e.rejectSend(s, errMulticast)
		return
	}
	mc := e.multicasts.Take()
	*mc = multicast{s: s, receivers: mc.receivers[:0], todo: mc.todo[:0], relayed: mc.relayed[:0], left: int(size),
		length: s.frag.Length - list, tag: s.env.Tag}
	mc.node.v = mc
	for i := range uint64(size) {
		var b [vni.ReceiverBytes]byte
		vni.Gather(b[:], s.frag.Parts, i*vni.ReceiverBytes)
		var n vni.Name
		copy(n.App[:], b[:])
		n.Index = binary.LittleEndian.Uint32(b[24:])
		if !n.Valid() {
			e.multicasts.Give(mc)
			e.rejectSend(s, errMulticast)
			return
		}
		mc.receivers = append(mc.receivers, receiver{name: n})
	}
	mc.cut(s.frag.Parts, list)
	s.kind, s.state, s.multi = kindMulticast, sendCopies, mc
	if p.held.n == 0 && p.guardOut == nil && e.pickRelayed(mc) {
		e.startRelay(mc)
	}
	for i := range mc.receivers {
		if mc.receivers[i].state == receiverWaits {
			mc.todo = append(mc.todo, uint16(i))
		}
	}
	mc.started = true
	if p.held.n > 0 || !e.serve(mc) { // in the first case earlier multicasts wait
		p.held.pushBack(&mc.node)
	}
}

// cut makes the data after the list of receivers, which has list bytes, the multicast's message.
func (mc *multicast) cut(parts [][]byte, list uint64) {
	for _, b := range parts {
		skip := min(list, uint64(len(b)))
		list -= skip
		if b = b[skip:]; len(b) > 0 {
			mc.parts[mc.n] = b
			mc.n++
		}
	}
}

// pickRelayed chooses the receivers that a relay can serve, and orders them by NIC. It reports
// whether a relay saves this NIC enough. If so, the message has its number for each of them and
// has used its credit.
func (e *Engine) pickRelayed(mc *multicast) bool {
	if mc.length > limits.StagedMessage {
		return false
	}
	cost := stagedCost(mc.length)
	for i := range mc.receivers {
		v := &mc.receivers[i]
		if v.dest = e.openTo(mc.s.p, v.name, mc.length); v.dest != nil {
			mc.relayed = append(mc.relayed, uint16(i))
		}
	}
	slices.SortStableFunc(mc.relayed, func(a, b uint16) int {
		x, y := mc.receivers[a].dest.peer, mc.receivers[b].dest.peer
		return cmp.Or(cmp.Compare(e.way(x), e.way(y)), cmp.Compare(x.nic-e.cfg.ID, y.nic-e.cfg.ID))
	})
	nics := 0
	for i := range mc.relayed {
		if i == 0 || mc.at(i).dest.peer != mc.at(i-1).dest.peer {
			nics++
		}
	}
	saved := len(mc.relayed) - bits.Len(uint(nics)) // copies
	worth := saved > 0 && saved*(wire.FragLen+int(mc.length)) >= e.cfg.RelaySaves
	mc.relayed = slices.DeleteFunc(mc.relayed, func(i uint16) bool {
		v := &mc.receivers[i]
		// A list may name a process more often than it has credit for.
		if !worth || !v.dest.open(int(mc.length)) {
			v.dest = nil
			return true
		}
		v.state, v.number = receiverRelayed, v.dest.leave(1, cost)
		v.dest.sends++
		return false
	})
	return len(mc.relayed) > 0
}

// way orders the NICs of a relay, whose list is divided as it stands. On a torus (QNIX-52) they
// are ordered column by column, starting at this NIC's own, so the NICs below a NIC are its
// neighbours. Elsewhere they are ordered by id, starting at this NIC's own, so different NICs pass
// on the multicasts of different NICs.
func (e *Engine) way(pr *peer) uint32 {
	own, at := e.cfg.Position, pr.names.Position
	if own.Width == 0 || at.Width != own.Width || at.Height != own.Height {
		return 0
	}
	w, h := uint32(own.Width), uint32(own.Height)
	return (uint32(at.X)+w-uint32(own.X))%w*h + (uint32(at.Y)+h-uint32(own.Y))%h
}

// at returns the receiver at a place in the relay's list.
func (mc *multicast) at(i int) *receiver { return &mc.receivers[mc.relayed[i]] }

// openTo returns a process of another NIC by name, if a message of length bytes could leave for it
// at once and on credit; else nil.
func (e *Engine) openTo(p *process, name vni.Name, length uint64) *dest {
	n := e.names.Find(&name)
	if n == nil || !n.Live() || n.NIC == e.cfg.ID {
		return nil
	}
	if d := p.dests[n.Address]; d != nil && d.open(int(length)) {
		return d
	}
	return nil
}

// endReceiver notes that a receiver has its message or will not get it. The last one completes the
// multicast.
func (e *Engine) endReceiver(mc *multicast, place int, status vni.Status) {
	v := &mc.receivers[place]
	v.state = receiverEnded
	if d := v.dest; d != nil {
		v.dest = nil
		e.leaveDest(mc.s.p, d)
	}
	if status != vni.StatusOK && (mc.failed == vni.StatusOK || place < mc.which) {
		mc.failed, mc.which = status, place
	}
	if mc.left--; mc.left > 0 {
		return
	}
	s := mc.s
	c := vni.Completion{Status: mc.failed, Len: mc.length, Full: mc.length, Tag: uint64(mc.which), Token: s.env.Token}
	e.abandonRelay(mc)
	mc.node.remove()
	s.multi = nil
	clear(mc.parts[:])
	e.multicasts.Give(mc)
	e.endSend(s, &c)
}

// loseReceivers ends the receivers that a relay may no longer reach: their session is over, or
// they have gone. It reports whether there were any.
func (e *Engine) loseReceivers(mc *multicast, status vni.Status, lost func(*dest) bool) (some bool) {
	for i := range mc.receivers {
		if d := mc.receivers[i].dest; d != nil && lost(d) {
			some = true
			e.countMessage(mc.s.p, status, mc.length)
			e.endReceiver(mc, i, status)
		}
	}
	return some
}

// stopMulticast ends a multicast in any state. A message that a relay has not brought by now must
// not arrive: its number is withdrawn.
func (e *Engine) stopMulticast(s *send, why wire.Reason, status vni.Status) {
	mc, p := s.multi, s.p
	mc.failed = status
	mc.which = slices.IndexFunc(mc.receivers, func(v receiver) bool { return v.state != receiverEnded })
	mc.node.remove()
	e.abandonRelay(mc)
	for _, c := range p.copies {
		if c != nil && c.multi == mc {
			e.abandonSend(c, why, status)
		}
	}
	for i := range mc.receivers {
		v := &mc.receivers[i]
		if v.state == receiverEnded {
			continue
		}
		if d := v.dest; d != nil {
			e.withdrawNumber(d, &wire.Envelope{DstSlot: d.key.Slot, DstGen: d.key.Gen, SrcSlot: p.slot,
				SrcGen: p.gen, Number: v.number}, mc.length)
		}
		e.endReceiver(mc, i, status)
	}
}
