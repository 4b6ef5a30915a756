package nic

import (
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// A relay is one message for processes of several NICs on its way down a tree of those NICs. Each delivers it to its own
// and passes it on by itself; the processes in between are not asked, and one that is stopped delays nobody.
//
//	source             first half's NIC                its first half …
//	  │── Relay ──────────►│── Relay ─────────────────────►│   list of NICs, receivers and message numbers; the message
//	  │── Relay ──────► second half's NIC …                │
//	  │                    │◄───────────────────── Relayed ─│   everybody below has it, but for these
//	  │◄────────── Relayed ─│
//
// The list is halved at every step, so the source sends the message log2 of the NICs times, and no way is longer. Each
// hop is rel's, so nothing is lost on it while both live. What can fail, a NIC that cannot be reached from where it
// should be, or one that dies, costs no message: the source keeps its bytes until all have answered, and sends those who
// are named in a Relayed, or were below a NIC that is lost, the message itself, with the number that it has. Whoever got
// it after all knows the number (decision 5). So a relay need not be certain of anything.
//
// A message number means something within a session of source and receiver, which those in between do not see. So the
// list names the session; a NIC that has another, or none, does not take the message from a third party.
type relay struct {
	node    node[relay] // in peer.relays
	parent  *peer       // whom to answer; nil at the source, and when the parent is lost
	id      uint32      // the parent's, for the answer
	multi   *multicast  // at the source, as long as somebody there wants to know
	head    wire.RelayHead
	body    []byte // head, list and message, until all legs have carried it
	kept    bool   // body is transit memory, not a frame
	message int    // where it begins in the body
	nics    []relayNIC
	legs    []*relayLeg // that have not answered
	begun   bool        // there will be no more legs
	missed  [wire.MaxMissed]uint64
}

// relayNIC is where a NIC stands in the body, and the place of its first receiver. The last one stands for the end.
type relayNIC struct {
	nic   uint64
	at    int
	first int
}

// relayLeg carries a relay to one NIC, with the part of the list that is for it and those below it.
type relayLeg struct {
	node     node[relayLeg] // in peer.legsOut
	blocked  node[relayLeg] // in peer.legsBlocked
	r        *relay
	pr       *peer
	id       uint32
	from, to int // of relay.nics
	head     [wire.RelayHeadLen]byte
	length   int
	sent     int // bytes
}

// relayTable has the relays that pass through this NIC.
type relayTable struct {
	legs   map[uint32]*relayLeg // by id
	last   uint32               // id
	relays freeList[relay]
	spare  freeList[relayLeg]
}

// assembly is a relay that comes in pieces.
type assembly struct {
	body []byte
	got  int
}

// relayCost is what a relay takes of what may be under way between two NICs.
func relayCost(length int) int { return length + limits.RelayOverhead }

// relayRecord takes a relay, or a piece of one.
func (e *Engine) relayRecord(pr *peer, rec wire.Record) {
	id, offset, length := rec.Relay()
	piece := rec.Payload()
	if len(piece) == int(length) {
		e.takeRelay(pr, id, piece, false)
		return
	}
	a, begun := pr.assemblies[id]
	if !begun {
		if int(length) > limits.RelayBody || pr.assembling+relayCost(int(length)) > limits.RelayBytes { // no peer sends such
			e.counts[vni.DropFormat]++
			e.answerRelay(pr, id, nil)
			return
		}
		a.body = e.groups.transit.blank(int(length))
		if pr.assemblies == nil {
			pr.assemblies = make(map[uint32]assembly)
		}
		pr.assemblies[id] = a
		pr.assembling += relayCost(len(a.body))
	}
	if len(a.body) != int(length) || a.got+len(piece) > len(a.body) {
		e.counts[vni.DropFormat]++
		return
	}
	copy(a.body[offset:], piece)
	if a.got += len(piece); a.got < len(a.body) {
		pr.assemblies[id] = a
		return
	}
	delete(pr.assemblies, id)
	pr.assembling -= relayCost(len(a.body))
	e.takeRelay(pr, id, a.body, true)
}

// takeRelay delivers a relay to the processes here and passes it on.
func (e *Engine) takeRelay(pr *peer, id uint32, body []byte, kept bool) {
	r := e.newRelay(body, kept)
	if !r.parse() || r.nics[0].nic != e.cfg.ID {
		e.counts[vni.DropFormat]++
		e.answerRelay(pr, id, nil)
		e.freeRelay(r)
		return
	}
	r.parent, r.id = pr, id
	pr.relays.pushBack(&r.node)
	e.beginLegs(r, 1)
	e.deliverRelay(r)
	if !r.kept && r.unsent() {
		r.body, r.kept = e.groups.transit.take(len(body)), true
		copy(r.body, body)
	}
	e.relayBegun(r)
}

func (e *Engine) newRelay(body []byte, kept bool) *relay {
	r := e.relays.relays.take()
	*r = relay{body: body, kept: kept, nics: r.nics[:0], legs: r.legs[:0]}
	r.node.v = r
	return r
}

func (e *Engine) freeRelay(r *relay) {
	r.node.remove()
	e.dropBody(r)
	e.relays.relays.give(r)
}

// dropBody gives back what nobody needs any more.
func (e *Engine) dropBody(r *relay) {
	if r.kept {
		e.groups.transit.give(r.body)
	}
	r.body, r.kept = nil, false
}

// parse reads the list of a body.
func (r *relay) parse() bool {
	head, rest, err := wire.ParseRelayHead(r.body)
	if err != nil {
		return false
	}
	r.head = head
	receivers := 0
	for range head.NICs {
		n, _, after, err := wire.ParseRelayNIC(rest)
		if err != nil {
			return false
		}
		r.nics = append(r.nics, relayNIC{n.NIC, len(r.body) - len(rest), receivers})
		receivers += int(n.Receivers)
		rest = after
	}
	r.message = len(r.body) - len(rest)
	r.nics = append(r.nics, relayNIC{0, r.message, receivers})
	return receivers <= limits.MulticastReceivers && len(rest) <= limits.EagerMessage
}

// deliverRelay gives the message to the processes here that it is for.
func (e *Engine) deliverRelay(r *relay) {
	n, receivers, _, _ := wire.ParseRelayNIC(r.body[r.nics[0].at:]) // which parse has found good
	message := r.body[r.message:]
	source := e.peerOf(r.head.NIC)
	for i := range int(n.Receivers) {
		v := wire.ParseRelayReceiver(receivers[i*wire.RelayReceiverLen:])
		if source == nil || !source.ep.Up() || source.ep.Session() != n.Session || !e.takeRelayed(source, r, &v, message) {
			r.miss(i, i+1)
		}
	}
}

// takeRelayed delivers the message to one process, and reports whether that has it, or had it already.
func (e *Engine) takeRelayed(source *peer, r *relay, v *wire.RelayReceiver, message []byte) bool {
	p := e.process(v.Slot)
	if p == nil || p.gen != v.Gen || !p.served() {
		return false
	}
	src := e.source(p, sourceKey{source, r.head.Slot, r.head.Gen})
	if src == nil {
		return false
	}
	if !src.fresh(v.Number) {
		return true
	}
	if !src.credit.spend(e.now, stagedCost(uint64(len(message)))) {
		e.counts[vni.DropFormat]++
		return false
	}
	e.counts[vni.NICRelayedMessages]++
	e.takeWhole(src, &wire.Envelope{DstSlot: v.Slot, DstGen: v.Gen, SrcSlot: r.head.Slot, SrcGen: r.head.Gen, Number: v.Number,
		Token: r.head.Token, Tag: r.head.Tag}, message)
	return true
}

// miss notes that some receivers, by their places in the list, have not been reached.
func (r *relay) miss(from, to int) {
	for i := from; i < to; i++ {
		r.missed[i/64] |= 1 << (i % 64)
	}
}

func (r *relay) hasMissed(i int) bool { return r.missed[i/64]&(1<<(i%64)) != 0 }

// beginLegs divides the NICs of the list, from the given one on, into halves, and begins a leg to the first NIC of each.
func (e *Engine) beginLegs(r *relay, from int) {
	for end := len(r.nics) - 1; from < end; {
		to := from + (end-from+1)/2
		e.beginLeg(r, from, to)
		from = to
	}
}

// beginLeg begins a leg for some NICs of the list: to the first that can be reached from here.
func (e *Engine) beginLeg(r *relay, from, to int) {
	for ; from < to; from++ {
		length := wire.RelayHeadLen + r.nics[to].at - r.nics[from].at + len(r.body) - r.message
		pr := e.peerOf(r.nics[from].nic)
		if pr == nil || !pr.ep.Up() || pr.relayed+relayCost(length) > limits.RelayBytes {
			r.miss(r.nics[from].first, r.nics[from+1].first)
			continue
		}
		l := e.relays.newLeg()
		l.r, l.pr, l.from, l.to, l.length = r, pr, from, to, length
		head := r.head
		head.NICs = uint16(to - from)
		head.Put(l.head[:])
		r.legs = append(r.legs, l)
		pr.legsOut.pushBack(&l.node)
		pr.relayed += relayCost(length)
		pr.ep.Watch(1)
		e.counts[vni.NICRelays]++
		if r.multi == nil { // else it takes the turns of its process
			e.pumpRelay(l)
		}
		return
	}
}

func (t *relayTable) newLeg() *relayLeg {
	l := t.spare.take()
	*l = relayLeg{}
	l.node.v, l.blocked.v = l, l
	for t.last++; t.last == 0 || t.legs[t.last] != nil; t.last++ {
	}
	l.id = t.last
	t.legs[l.id] = l
	return l
}

// pumpRelay sends what a leg can, and has it wait for the peer if that takes no more.
func (e *Engine) pumpRelay(l *relayLeg) {
	for l.sent < l.length {
		if !e.relayPiece(l) {
			l.pr.legsBlocked.pushBack(&l.blocked)
			return
		}
	}
	e.carried(l.r)
}

// relayPiece sends a record's worth of a leg; false means that the peer takes no more.
func (e *Engine) relayPiece(l *relayLeg) bool {
	space := wire.Data
	if l.length <= limits.TinyMessage {
		space = wire.Command
	}
	n := min(l.length-l.sent, l.pr.ep.MaxRecord(space)-wire.RelayLen)
	b := l.pr.ep.Reserve(e.now, space, wire.RelayLen+n)
	if b == nil {
		return false
	}
	r := l.r
	wire.PutRelay(b, l.id, uint32(l.sent), uint32(l.length), n)
	parts := [...][]byte{l.head[:], r.body[r.nics[l.from].at:r.nics[l.to].at], r.body[r.message:]}
	gatherRange(b[wire.RelayLen:wire.RelayLen+n], parts[:], uint64(l.sent))
	l.sent += n
	return true
}

// unsent reports whether some leg has not carried all.
func (r *relay) unsent() bool {
	return slices.ContainsFunc(r.legs, func(l *relayLeg) bool { return l.sent < l.length })
}

// carried frees the body when nothing of it is left to be sent.
func (e *Engine) carried(r *relay) {
	if r.begun && !r.unsent() {
		e.dropBody(r)
	}
}

// unblockRelays lets the legs to a peer go on.
func (e *Engine) unblockRelays(pr *peer) {
	for n := pr.legsBlocked.n; n > 0; n-- {
		l := pr.legsBlocked.front()
		l.blocked.remove()
		e.pumpRelay(l)
	}
}

// relayedRecord takes the answer to a leg.
func (e *Engine) relayedRecord(pr *peer, rec wire.Record) {
	id, missed := rec.Relayed()
	l := e.relays.legs[id]
	if l == nil || l.pr != pr {
		e.counts[vni.DropFormat]++
		return
	}
	r := l.r
	first, end := r.nics[l.from].first, r.nics[l.to].first
	for i := first; i < end; i++ {
		if k := i - first; rec.Flags()&wire.FlagNone != 0 || missed[k/64]&(1<<(k%64)) != 0 {
			r.miss(i, i+1)
		}
	}
	e.endLeg(l)
}

// loseLeg gives up on all who are below a NIC.
func (e *Engine) loseLeg(l *relayLeg) {
	l.r.miss(l.r.nics[l.from].first, l.r.nics[l.to].first)
	e.endLeg(l)
}

func (e *Engine) endLeg(l *relayLeg) {
	r := l.r
	delete(e.relays.legs, l.id)
	l.node.remove()
	l.blocked.remove()
	l.pr.relayed -= relayCost(l.length)
	l.pr.ep.Watch(-1)
	r.legs = slices.DeleteFunc(r.legs, func(o *relayLeg) bool { return o == l })
	*l = relayLeg{}
	e.relays.spare.give(l)
	if r.multi != nil && r.multi.s.state == sendBlocked { // perhaps on account of this leg
		e.ready(r.multi.s)
	}
	e.carried(r)
	e.settleRelay(r)
}

// relayBegun notes that there will be no more legs.
func (e *Engine) relayBegun(r *relay) {
	r.begun = true
	e.carried(r)
	e.settleRelay(r)
}

// settleRelay ends a relay whose legs have all answered.
func (e *Engine) settleRelay(r *relay) {
	if !r.begun || len(r.legs) > 0 {
		return
	}
	switch {
	case r.parent != nil:
		e.answerRelay(r.parent, r.id, r.words())
	case r.multi != nil:
		e.relayOver(r)
	}
	e.freeRelay(r)
}

// words are the bits of those who were missed, as a Relayed has them: none if there are none.
func (r *relay) words() []uint64 {
	n := len(r.missed)
	for n > 0 && r.missed[n-1] == 0 {
		n--
	}
	return r.missed[:n]
}

// answerRelay tells a parent whom its relay has not reached: all, if missed is nil.
func (e *Engine) answerRelay(pr *peer, id uint32, missed []uint64) {
	flags := uint8(0)
	if missed == nil {
		flags = wire.FlagNone
	}
	if b := pr.ep.Control(e.now, wire.RelayedLen+8*len(missed)); b != nil {
		wire.PutRelayed(b, flags, id, missed)
	}
}

// losePeerRelays gives up what was to go by a peer, and what it wanted passed on that has not come whole. What has come
// goes its way, though nobody wants to know any more whether it arrives.
func (e *Engine) losePeerRelays(pr *peer) {
	for r := pr.relays.front(); r != nil; r = pr.relays.front() {
		r.node.remove()
		r.parent = nil
	}
	for id, a := range pr.assemblies { // order does not matter: only deletions
		e.groups.transit.give(a.body)
		delete(pr.assemblies, id)
	}
	pr.assembling = 0
	for l := pr.legsOut.front(); l != nil; l = pr.legsOut.front() {
		e.loseLeg(l)
	}
}
