package nic

import (
	"github.com/weftnet/weft/internal/wire"
)

// Every message leaves by one rule: by a command, by a direct call, with others in a run, down the
// tree of a multicast, or to a process of this NIC. open reports whether it may leave at once on
// credit, and leave uses up its number and its credit.
//
//	command   sendFrag, sendEager ── credit ───┐
//	          sendRequest ────────── no credit ┤
//	          localEnvelope ──────── no credit ┤
//	direct    Send, Post, put (runs) credit ───┼──► leave ──► envelope with that number
//	multicast pickRelayed ────────── credit ───┘

// open reports whether a message of n bytes may leave now, on credit and without waiting: the pair
// is up, and no message to the same process waits before it.
func (d *dest) open(n int) bool {
	if d.peer == nil || d.over || d.queue.n > 0 || !d.peer.ep.Up() {
		return false
	}
	r := d.remote
	return r.used+stagedCost(uint64(n)) <= r.granted && r.waiting.n == 0 && r.admitted == nil
}

// leave uses up the numbers of n messages to d, and cost bytes of credit. cost is 0 for messages
// that ask for permission and for those that stay on this NIC. leave returns the number of the
// first message.
func (d *dest) leave(n int, cost uint64) (number uint32) {
	number = d.number
	d.number += uint32(n)
	if cost > 0 {
		d.remote.used += cost
	}
	return number
}

// envelope returns the envelope of a message from p to d that has left with a number.
func (d *dest) envelope(p *process, number uint32, tag uint64) wire.Envelope {
	return wire.Envelope{DstSlot: d.key.Slot, DstGen: d.key.Gen, SrcSlot: p.slot, SrcGen: p.gen, Number: number,
		Tag: tag}
}
