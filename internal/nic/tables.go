package nic

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// What the NICs tell one another travels in Table records. Each begins with what it is:
//
//	claim, end, ask                lost                    sync                    node
//	 0  1, 2 or 9       1           0  4             1      0  3             1      0  5             1
//	 1  part            1           1  zero          1      1  zero          3      1  part          1
//	 2  slot            2           2  slot          2      4  records sent  4      2  zero          2
//	 4  generation      4           4  generation    4      8  promised      4      4  port          2
//	                                                                                6  zero          2
//	 8  age in ns       8                                                           8  address, IPv6 16
//	16  index           4                                                          24  NIC id        8
//	20  application    24
//	44  number          4
//
// join and leave are in groups.go, ask and answer in confirm.go. position is 8, zero to the fourth byte, and the 8 bytes of
// the place on a torus that the NIC itself has (tree.go).
//
// claim: the process has this name, since so long. end: it has gone, or has no claim to it. The number counts the claims of a
// NIC: of two to one name the later one says that the earlier is over, whatever overtakes what. lost: the name that you claimed
// for this process belongs to another. node: there is a NIC at this address.
//
// sync: so many claims and nodes are the first table, so the receiver can tell when it has them all; and so many processes
// wait for the confirmation of their names, of each of which a claim or an end will follow. The part says to which of the
// two numbers a record belongs.
const (
	tableClaim  = 1
	tableEnd    = 2
	tableSync   = 3
	tableLost   = 4
	tableNode   = 5
	tableJoin   = 6
	tableLeave  = 7
	tablePlace  = 8
	tableAsk    = 9
	tableAnswer = 10

	partNone     = 0
	partFirst    = 1
	partPromised = 2

	claimLen = 24 + limits.NameBytes
	syncLen  = 12
	lostLen  = 8
	nodeLen  = 32
	placeLen = 12
)

// table reserves a Table record with n bytes of payload.
func (e *Engine) table(pr *peer, n int) []byte {
	b := pr.ep.Control(e.now, wire.RecordLen+n)
	if b == nil {
		return nil
	}
	e.counts[vni.NICNameUpdatesSent]++
	wire.PutTable(b, n)
	b = b[wire.RecordLen:]
	clear(b[:n])
	return b
}

// tellTables gives a new peer all that this NIC knows: its own names, and the other NICs.
func (e *Engine) tellTables(pr *peer) {
	records, promised := uint32(0), uint32(0)
	for _, n := range e.names.all {
		switch {
		case n.nic != e.cfg.ID || n.dead:
		case n.state == claimHeld:
			e.tellClaim(pr, n, partFirst)
			records++
		default:
			n.promised = append(n.promised, pr)
			promised++
		}
	}
	for _, other := range e.nodes.list {
		if other == pr || other.nic == 0 || !other.ep.Up() {
			continue
		}
		if e.tellNode(pr, other, partFirst) {
			records++
		}
		e.tellNode(other, pr, partNone)
	}
	if b := e.table(pr, syncLen); b != nil {
		b[0] = tableSync
		binary.LittleEndian.PutUint32(b[4:], records)
		binary.LittleEndian.PutUint32(b[8:], promised)
	}
	if e.cfg.Position.Width > 0 {
		if b := e.table(pr, placeLen); b != nil {
			b[0] = tablePlace
			putPosition(b[4:], e.cfg.Position)
		}
	}
	e.tellSeats(pr)
}

func (e *Engine) tellClaim(pr *peer, n *nameEntry, part byte) {
	b := e.table(pr, claimLen)
	if b == nil {
		return
	}
	putClaim(b, tableClaim, n, uint64(e.now.Sub(n.since)))
	b[1] = part
}

func (e *Engine) tellEnd(pr *peer, n *nameEntry, part byte) {
	if b := e.table(pr, claimLen); b != nil {
		putClaim(b, tableEnd, n, 0)
		b[1] = part
	}
}

func putClaim(b []byte, op byte, n *nameEntry, age uint64) {
	b[0] = op
	binary.LittleEndian.PutUint16(b[2:], n.slot)
	binary.LittleEndian.PutUint32(b[4:], n.gen)
	binary.LittleEndian.PutUint64(b[8:], age)
	binary.LittleEndian.PutUint32(b[16:], n.name.Index)
	copy(b[20:], n.name.App[:])
	binary.LittleEndian.PutUint32(b[44:], n.number)
}

// tellNode tells to about another NIC, which it may not have heard of. It reports whether it did.
func (e *Engine) tellNode(to, about *peer, part byte) bool {
	a := about.ep.Addr()
	if !tellable(a.Addr(), to.ep.Addr().Addr()) {
		return false
	}
	b := e.table(to, nodeLen)
	if b == nil {
		return false
	}
	b[0], b[1] = tableNode, part
	binary.LittleEndian.PutUint16(b[4:], a.Port())
	ip := a.Addr().As16()
	copy(b[8:], ip[:])
	binary.LittleEndian.PutUint64(b[24:], about.nic)
	return true
}

// tableRecord takes what a peer tells.
func (e *Engine) tableRecord(pr *peer, b []byte) {
	e.counts[vni.NICNameUpdatesReceived]++
	switch {
	case len(b) >= claimLen && (b[0] == tableClaim || b[0] == tableEnd || b[0] == tableAsk):
		e.nameRecord(pr, b)
	case len(b) >= syncLen && b[0] == tableSync:
		pr.firstDue, pr.promisedDue = int(binary.LittleEndian.Uint32(b[4:])), int(binary.LittleEndian.Uint32(b[8:]))
		e.checkSync(pr)
	case len(b) >= lostLen && b[0] == tableLost:
		e.takeLost(pr, binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:]))
	case len(b) >= nodeLen && b[0] == tableNode:
		e.takeNode(pr, b)
		e.countPart(pr, b[1])
	case len(b) >= answerLen && b[0] == tableAnswer:
		e.takeAnswer(pr, b)
	case len(b) >= seatLen && (b[0] == tableJoin || b[0] == tableLeave):
		e.seatRecord(pr, b)
	case len(b) >= placeLen && b[0] == tablePlace && parsePosition(b[4:]).Valid():
		pr.at = parsePosition(b[4:])
	default:
		e.counts[vni.DropFormat]++
	}
}

// nameRecord takes what a peer says about the name of one of its processes.
func (e *Engine) nameRecord(pr *peer, b []byte) {
	n := nameEntry{address: address{pr.nic, binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:])}}
	n.name.Index = binary.LittleEndian.Uint32(b[16:])
	copy(n.name.App[:], b[20:44])
	n.number = binary.LittleEndian.Uint32(b[44:])
	n.since = e.now - clockTime(binary.LittleEndian.Uint64(b[8:]))
	switch {
	case !n.name.Valid() || n.slot == 0 || n.name.App == controlName.App:
		e.counts[vni.DropFormat]++
		return
	case b[0] == tableEnd:
		e.takeEnd(&n)
	case e.names.full(pr.nic) && e.names.byAddr[n.address] == nil:
		e.counts[vni.DropFormat]++
	case b[0] == tableAsk:
		e.takeAsk(&n)
		return
	default:
		e.takeClaim(pr, &n)
	}
	e.countPart(pr, b[1])
}

// countPart counts a record of a peer's first table, or one that was promised there.
func (e *Engine) countPart(pr *peer, part byte) {
	switch part {
	case partFirst:
		pr.first++
	case partPromised:
		pr.promised++
	default:
		return
	}
	e.checkSync(pr)
}

func (e *Engine) checkSync(pr *peer) {
	if pr.told && !pr.synced && pr.promised == pr.promisedDue {
		pr.synced, e.reconsider = true, true
	}
	if pr.told || pr.first != pr.firstDue {
		return
	}
	pr.told, pr.synced = true, pr.promised == pr.promisedDue
	e.reconsider = true
	for _, n := range slices.Clone(e.names.all) { // what a returned NIC no longer claims has gone meanwhile
		if n.nic == pr.nic && n.stale && !n.dead {
			e.ends(n)
		}
	}
}

// ends takes the news that a process of another NIC has gone.
func (e *Engine) ends(n *nameEntry) {
	named := e.names.byName[n.name] == n
	e.names.kill(e, n)
	e.processGone(destKey(n.address), n.name, named)
	e.rewatch(n.name)
}

// takeClaim adds a name that a peer claims for one of its processes. Of two claims to one name the older wins; so that
// both sides judge alike, the NIC with the lower id judges and tells the other.
func (e *Engine) takeClaim(pr *peer, n *nameEntry) {
	c := n
	if old := e.names.byAddr[n.address]; old != nil {
		switch {
		case old.stale:
			e.names.remove(old) // its NIC has come back, perhaps in another life
		case old.dead || old.state == claimHeld || old.name != n.name: // its end overtook it, or it was told already
			return
		default: // confirmed, by us or another
			e.names.remove(old)
			e.closeClaim(old)
		}
	}
	if !e.supersede(n) { // its end is under way
		c.dead, c.forget = true, e.now.Add(limits.NameKeep)
		e.checkAt(c.forget)
		e.names.put(e, c)
		return
	}
	own := e.names.own(e, n.name)
	e.names.put(e, c)
	switch {
	case own == nil:
	case e.cfg.ID > pr.nic:
		if p := e.process(own.slot); p.lostTo == pr { // the judgement overtook this claim
			e.loseName(p, c)
		}
	case (own.since <= c.since) != (e.cfg.Defect == mutate.YoungerWins):
		e.counts[vni.NICNameConflicts]++
		if b := e.table(pr, lostLen); b != nil {
			b[0] = tableLost
			binary.LittleEndian.PutUint16(b[2:], c.slot)
			binary.LittleEndian.PutUint32(b[4:], c.gen)
		}
	default:
		e.counts[vni.NICNameConflicts]++
		e.loseName(e.process(own.slot), c)
	}
}

// supersede ends the earlier claims of a NIC to the name that it claims by n. It returns false if there is a later one. What
// is left from before this session is earlier, whatever its number: in another life the NIC has counted anew.
func (e *Engine) supersede(n *nameEntry) bool {
	for _, o := range slices.Clone(e.names.claims[n.name]) {
		switch {
		case o.nic != n.nic || o.address == n.address || o.dead:
		case int32(o.number-n.number) > 0 && (!o.stale || e.cfg.Defect == mutate.OtherLifeCountsOn):
			return false
		case o.state == claimHeld:
			e.ends(o)
		default:
			e.names.remove(o)
			e.closeClaim(o)
		}
	}
	return true
}

// takeLost takes the judgement of a peer that the name of a process of ours is its own. It may judge if its id is the
// lower one, and about names that it claims; the claim may still be under way.
func (e *Engine) takeLost(pr *peer, slot uint16, gen uint32) {
	p := e.process(slot)
	if p == nil || p.gen != gen || slot == 0 || pr.nic > e.cfg.ID || !p.served() {
		e.counts[vni.DropFormat]++
		return
	}
	p.lostTo = pr
	if n := e.names.claimOf(pr.nic, p.name); n != nil {
		e.counts[vni.NICNameConflicts]++
		e.loseName(p, n)
	}
}

// loseName takes its name from a process of ours: another has it by an older claim. For everybody else it has ended. It
// learns so itself from every operation from now on, and by an event who has the name.
func (e *Engine) loseName(p *process, winner *nameEntry) {
	if !p.served() {
		return
	}
	e.tell(p, vni.Event{Kind: vni.EventNameLost, NIC: winner.nic, Slot: winner.slot, Gen: winner.gen, Name: p.name})
	p.detached = true
	p.node.remove()
	e.stop(p)
	p.vni.SetGone(vni.StatusNameLost) // from here on it may use its memory for something else
	e.ring(p)
	e.endName(p)
}

// endName has everybody forget a process of ours and its name.
func (e *Engine) endName(p *process) {
	n := e.names.byAddr[address{e.cfg.ID, p.slot, p.gen}]
	if n == nil || n.dead { // the control process, or one that had lost its name
		return
	}
	if n.state != claimHeld {
		e.dropOwn(n)
		return
	}
	e.ends(n)
	for _, pr := range e.nodes.list {
		e.tellEnd(pr, n, partNone)
	}
}

// takeEnd takes the news that a process has gone.
func (e *Engine) takeEnd(n *nameEntry) {
	old := e.names.byAddr[n.address]
	if old == nil { // it has overtaken the claim: remember, so that the claim does no harm
		if e.names.full(n.nic) {
			e.counts[vni.DropFormat]++
			return
		}
		c := *n
		c.dead = true
		e.names.put(e, &c)
		old = &c
	} else if old.dead {
		old.stale = false
		return
	}
	e.ends(old)
}

// takeNode takes the news of another NIC.
func (e *Engine) takeNode(pr *peer, b []byte) {
	var ip [16]byte
	copy(ip[:], b[8:])
	id := binary.LittleEndian.Uint64(b[24:])
	addr := link.Addr(netip.AddrPortFrom(netip.AddrFrom16(ip).Unmap(), binary.LittleEndian.Uint16(b[4:])))
	if id == 0 || id == e.cfg.ID || e.cfg.Static || e.peerOf(id) != nil || !usable(addr) || !tellable(addr.Addr(), pr.ep.Addr().Addr()) {
		return
	}
	if _, err := e.addNode(id, addr); err != nil {
		e.counts[vni.DropRefusedHello]++
	}
}

// usable reports whether frames can go to an address.
func usable(a link.Addr) bool {
	return a.IsValid() && a.Port() != 0 && !a.Addr().IsUnspecified() && !a.Addr().IsMulticast()
}
