package relay

import (
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// leg carries a relay to one NIC, with the part of the list for it and the NICs below it.
type leg struct {
	r        *Relay
	pr       *Peer
	at       int // index in its peer's legs
	id       uint32
	from, to int // range of the relay's nics
	head     [wire.RelayHeadLen]byte
	length   int
	sent     int // bytes
	blocked  bool
}

// Start makes a relay from this NIC, in a buffer of transit memory. The source waits for its
// outcome. If there is something to send, the source sends it by Turn. When the source is ready
// for Over, it calls Begun.
func (t *Table) Start(body []byte, source any) (r *Relay, unsent bool) {
	r = t.newRelay(body, true)
	if !r.parse() {
		panic("relay: one of our own making is malformed")
	}
	r.source = source
	t.sign(r)
	t.beginLegs(r, 0)
	return r, r.unsent()
}

// Begun notes that no more legs will begin.
func (t *Table) Begun(r *Relay) {
	r.begun = true
	t.carried(r)
	t.settle(r)
}

// Turn sends one record of a relay from this NIC. Its legs are sent one after another, those with
// the most NICs below them first; a leg whose peer accepts no more is skipped. If all peers
// accept no more, full is the first of them. done means that all has been sent.
func (t *Table) Turn(r *Relay) (full *Peer, done bool) {
	for _, l := range r.legs {
		if l.sent == l.length {
			continue
		}
		if t.piece(l) {
			full = nil
			break
		}
		if full == nil {
			full = l.pr
		}
	}
	t.carried(r)
	return full, !r.unsent()
}

// Abandon detaches a relay whose outcome is not awaited any more. NICs that have a part of it
// must get the rest, so it goes on alone. NICs to which nothing has been sent yet are left out.
func (t *Table) Abandon(r *Relay) {
	r.source, r.begun = nil, false
	for _, l := range slices.Clone(r.legs) {
		switch {
		case l.sent == 0:
			t.lose(l)
		case l.sent < l.length:
			t.pump(l)
		}
	}
	t.Begun(r)
}

// beginLegs divides the NICs of the list, from the given one on, into halves, and begins a leg to
// the first NIC of each.
func (t *Table) beginLegs(r *Relay, from int) {
	for end := len(r.nics) - 1; from < end; {
		to := from + (end-from+1)/2
		t.beginLeg(r, from, to)
		from = to
	}
}

// beginLeg begins a leg for some NICs of the list, to the first that can be reached from here.
func (t *Table) beginLeg(r *Relay, from, to int) {
	for ; from < to; from++ {
		length := wire.RelayHeadLen + r.nics[to].at - r.nics[from].at + len(r.body) - r.message
		pr := t.nic.Peer(r.nics[from].nic)
		if pr == nil || !pr.Up() || pr.cost+cost(length) > limits.RelayBytes {
			r.miss(r.nics[from].first, r.nics[from+1].first)
			continue
		}
		l := t.newLeg()
		*l = leg{r: r, pr: pr, at: len(pr.legs), id: t.last, from: from, to: to, length: length}
		head := r.head
		head.NICs = uint16(to - from)
		head.Put(l.head[:])
		r.legs = append(r.legs, l)
		pr.legs = append(pr.legs, l)
		pr.cost += cost(length)
		pr.Watch(1)
		t.counts[vni.NICRelays]++
		if r.source == nil { // else it is sent in the turns of its source
			t.pump(l)
		}
		return
	}
}

// newLeg registers a leg with the next id.
func (t *Table) newLeg() *leg {
	l := t.spare.Take()
	for t.last++; t.last == 0 || t.legs[t.last] != nil; t.last++ {
	}
	t.legs[t.last] = l
	return l
}

// pump sends as much as a leg can, and queues the leg if the peer accepts no more.
func (t *Table) pump(l *leg) {
	for l.sent < l.length {
		if !t.piece(l) {
			l.blocked = true
			l.pr.blocked = append(l.pr.blocked, l)
			return
		}
	}
	t.carried(l.r)
}

// piece sends one record of a leg. False means that the peer accepts no more.
func (t *Table) piece(l *leg) bool {
	space := wire.SpaceFor(l.length)
	n := min(l.length-l.sent, l.pr.MaxRecord(space)-wire.RelayLen)
	b := l.pr.Reserve(t.nic.Now(), space, wire.RelayLen+n)
	if b == nil {
		return false
	}
	r := l.r
	wire.PutRelay(b, l.id, uint32(l.sent), uint32(l.length), n)
	parts := [...][]byte{l.head[:], r.body[r.nics[l.from].at:r.nics[l.to].at], r.body[r.message:]}
	vni.Gather(b[wire.RelayLen:wire.RelayLen+n], parts[:], uint64(l.sent))
	if t.Alter != nil && r.parent != nil {
		t.Alter(b[wire.RelayLen:wire.RelayLen+n], l.sent)
	}
	l.sent += n
	return true
}

// unsent reports whether some leg has not carried all its bytes.
func (r *Relay) unsent() bool {
	return slices.ContainsFunc(r.legs, func(l *leg) bool { return l.sent < l.length })
}

// carried frees the body when no byte of it is left to be sent.
func (t *Table) carried(r *Relay) {
	if r.begun && !r.unsent() {
		t.dropBody(r)
	}
}

// Writable continues the legs to a peer.
func (t *Table) Writable(pr *Peer) {
	for n := len(pr.blocked); n > 0; n-- {
		l := pr.blocked[0]
		pr.blocked = slices.Delete(pr.blocked, 0, 1)
		l.blocked = false
		t.pump(l)
	}
}

// Answer handles the answer to a leg.
func (t *Table) Answer(pr *Peer, rec wire.Record) {
	id, missed := rec.Relayed()
	l := t.legs[id]
	if l == nil || l.pr != pr {
		t.counts[vni.DropFormat]++
		return
	}
	r := l.r
	first, end := r.nics[l.from].first, r.nics[l.to].first
	for i := first; i < end; i++ {
		if k := i - first; rec.Flags()&wire.FlagNone != 0 || missed[k/64]&(1<<(k%64)) != 0 {
			r.miss(i, i+1)
		}
	}
	t.end(l)
}

// lose gives up all NICs of a leg.
func (t *Table) lose(l *leg) {
	l.r.miss(l.r.nics[l.from].first, l.r.nics[l.to].first)
	t.end(l)
}

func (t *Table) end(l *leg) {
	r, pr := l.r, l.pr
	is := func(o *leg) bool { return o == l }
	delete(t.legs, l.id)
	last := len(pr.legs) - 1
	pr.legs[l.at] = pr.legs[last] // the last one takes its place
	pr.legs[l.at].at = l.at
	pr.legs[last], pr.legs = nil, pr.legs[:last]
	if l.blocked {
		pr.blocked = slices.DeleteFunc(pr.blocked, is)
	}
	pr.cost -= cost(l.length)
	pr.Watch(-1)
	r.legs = slices.DeleteFunc(r.legs, is)
	*l = leg{}
	t.spare.Give(l)
	if r.source != nil {
		t.nic.LegEnded(r.source)
	}
	t.carried(r)
	t.settle(r)
}

// settle ends a relay whose legs have all answered.
func (t *Table) settle(r *Relay) {
	if !r.begun || len(r.legs) > 0 {
		return
	}
	switch {
	case r.parent != nil:
		if r.parent.Up() && r.parent.Session() == r.session {
			t.answer(r.parent, r.id, r.words())
		}
	case r.source != nil:
		t.nic.Over(r.source, r)
	}
	t.free(r)
}

// words returns the bits of the missed receivers in the form of a Relayed: none if all were
// reached.
func (r *Relay) words() []uint64 {
	n := len(r.missed)
	for n > 0 && r.missed[n-1] == 0 {
		n--
	}
	return r.missed[:n]
}

// Down gives up the legs to a peer, and the incomplete relays from it. Complete relays from it go
// on, although their answer is not awaited.
func (t *Table) Down(pr *Peer) {
	for id, a := range pr.assemblies { // order does not matter: only deletions
		t.nic.GiveBuffer(a.body)
		delete(pr.assemblies, id)
	}
	pr.assembling = 0
	for len(pr.legs) > 0 {
		t.lose(pr.legs[0])
	}
}
