package names

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/mutate"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// NICs tell one another of names and of NICs in Table records. The first byte of each is its
// kind:
//
//	claim, end, ask     answer, lost                       sync               node
//	 0  1, 2 or 9    1   0  10 or 4     1                  0  3            1   0  5              1
//	 1  part         1   1  verdict     1  of the answer   1  zero         3   1  part           1
//	 2  slot         2   2  slot        2  of the          4  records sent 4   2  zero           2
//	 4  generation   4   4  generation  4  claimant        8  promised     4   4  port           2
//	 8  zero         8   8  NIC id      8  of the process                      6  zero           2
//	16  index        4  16  generation  4  that has                            8  address, IPv6 16
//	20  application 24  20  slot        2  the name                           24  NIC id         8
//	44  number       4  22  zero        2
//
// The first byte is one of the codes in internal/wire/table.go. Records of groups and programs
// are described where they are handled. Code 8 is the position: zeros up to the fourth byte, and
// the 8 bytes of the NIC's own place on a torus (wire.Position).
//
//	yield
//	 0  13                      1
//	 1  verdict                 1
//	 2  slot, of the claimant   2
//	 4  generation              4
//	 8  incarnation             8  of the claimant; in an answer, of the process that has the name
//	16  generation, of that     4
//	20  slot                    2
//	22  zero                    6
//	28  proof                  16  zero in an answer
//
// claim: the process has this name. end: the process has ended, or has no claim to the name. The
// number counts the claims of a NIC. If a NIC has two claims to one name, the one with the larger
// number says that the other is over, whatever the order of arrival. The eight bytes behind the
// generation are the incarnation of a process of a rank (vni.Life), else zero. They order claims
// after a partition (contest.go), and nothing else. node: there is a NIC at this address. ask and
// answer: see confirm.go. The verdict is 0 refused, 1 granted, 2 the claimant's NIC may not have
// names of this application. lost: the home of the name gives it to another process (contest.go).
//
// sync: the number of claims and nodes in the first table, so that the receiver can tell when it
// has them all. It also has the number of processes that wait for the confirmation of their
// names; a claim or an end will follow for each of them. The part of a record says to which of
// the two numbers it belongs.
const (
	partNone     = 0
	partFirst    = 1
	partPromised = 2

	claimLen  = 24 + limits.NameBytes
	syncLen   = 12
	lostLen   = 24
	nodeLen   = 32
	placeLen  = 12
	answerLen = 24
	yieldLen  = 28 + proofLen

	askRefused   = 0
	askGranted   = 1
	askForbidden = 2
)

var le = binary.LittleEndian

// Take handles a Table record of a peer. It returns false if the record is not about names or
// NICs, or is too short.
func (t *Table) Take(p *Peer, b []byte) bool {
	switch {
	case len(b) >= claimLen && (b[0] == wire.TableClaim || b[0] == wire.TableEnd || b[0] == wire.TableAsk):
		t.takeName(p, b)
	case len(b) >= syncLen && b[0] == wire.TableSync:
		p.firstDue, p.promisedDue = int(le.Uint32(b[4:])), int(le.Uint32(b[8:]))
		t.checkSync(p)
	case len(b) >= lostLen && b[0] == wire.TableLost:
		t.takeLost(p, t.own(b[2:]), address(b[8:]))
	case len(b) >= nodeLen && b[0] == wire.TableNode:
		t.takeNode(p, b)
		t.countPart(p, b[1])
	case len(b) >= answerLen && b[0] == wire.TableAnswer:
		t.takeAnswer(p, t.own(b[2:]), b[1], address(b[8:]))
	case len(b) >= yieldLen && b[0] == wire.TableYield:
		t.takeYield(p, b)
	case len(b) >= placeLen && b[0] == wire.TablePlace && wire.ParsePosition(b[4:]).Valid():
		p.Position = wire.ParsePosition(b[4:])
	default:
		return false
	}
	return true
}

// Claimant returns the slot and the generation of the process in a claim. ok is false if the
// Table record is not a claim.
func Claimant(b []byte) (slot uint16, gen uint32, ok bool) {
	return le.Uint16(b[2:]), le.Uint32(b[4:]), b[0] == wire.TableClaim
}

// address reads the address of a process. putAddress writes it.
func address(b []byte) vni.Address {
	return vni.Address{NIC: le.Uint64(b), Gen: le.Uint32(b[8:]), Slot: le.Uint16(b[12:])}
}

func putAddress(b []byte, a vni.Address) {
	le.PutUint64(b, a.NIC)
	le.PutUint32(b[8:], a.Gen)
	le.PutUint16(b[12:], a.Slot)
}

// own returns the entry of this NIC's process whose slot and generation are at b.
func (t *Table) own(b []byte) *Entry {
	return t.byAddr[vni.Address{NIC: t.cfg.NIC, Slot: le.Uint16(b), Gen: le.Uint32(b[2:])}]
}

// takeName handles a peer's record about the name of one of its processes.
func (t *Table) takeName(p *Peer, b []byte) {
	n := &Entry{
		Address: vni.Address{NIC: p.NIC(), Slot: le.Uint16(b[2:]), Gen: le.Uint32(b[4:])}, number: le.Uint32(b[44:]),
		since: t.nic.Now(), incarnation: le.Uint64(b[8:]),
	}
	if t.cfg.Defect == mutate.AgeBelieved {
		n.since -= clock.Time(le.Uint64(b[8:]) >> 1)
	}
	n.Name.Index = le.Uint32(b[16:])
	copy(n.Name.App[:], b[20:])
	switch {
	case !n.Name.Valid() || n.Slot == 0 || Reserved(n.Name):
		t.count(vni.DropFormat)
		return
	case !t.mayClaim(n.NIC, n.Name):
		t.refuseClaim(n, b[0])
	case b[0] == wire.TableEnd:
		t.takeEnd(n)
	case t.full(n.NIC) && t.byAddr[n.Address] == nil:
		t.count(vni.DropFormat)
	case b[0] == wire.TableAsk:
		t.takeAsk(n)
		return
	default:
		t.takeClaim(p, n, b[1])
	}
	t.countPart(p, b[1])
}

// refuseClaim refuses a peer's record about a name that its processes may not have. A claimant
// that asks gets that answer.
func (t *Table) refuseClaim(n *Entry, op byte) {
	switch op {
	case wire.TableEnd: // of a claim that is not in the table
		return
	case wire.TableAsk:
		t.tellAnswer(n, askForbidden, vni.Address{})
	}
	t.count(vni.NICNamesForbidden)
}

// countPart counts a record of a peer's first table, or one that was promised there.
func (t *Table) countPart(p *Peer, part byte) {
	switch part {
	case partFirst:
		p.first++
	case partPromised:
		p.promised++
	default:
		return
	}
	t.checkSync(p)
}

// checkSync checks whether the first table of a peer is complete, and whether all that it
// promised has arrived.
func (t *Table) checkSync(p *Peer) {
	if !p.told && p.first == p.firstDue {
		p.told, t.changed = true, true
		// A NIC has come back. Its processes that it does not claim again have ended meanwhile.
		for _, n := range t.of(p) {
			if n.stale && !n.dead {
				t.ends(n)
			}
		}
	}
	if p.told && !p.synced && p.promised == p.promisedDue {
		p.synced, t.changed = true, true
	}
}

// tellName tells a peer about the claim of one of this NIC's processes.
func (t *Table) tellName(p *Peer, op byte, n *Entry, part byte) bool {
	b := t.nic.Record(p.Endpoint, claimLen)
	if b == nil {
		return false
	}
	b[0], b[1] = op, part
	le.PutUint16(b[2:], n.Slot)
	le.PutUint32(b[4:], n.Gen)
	le.PutUint64(b[8:], n.incarnation)
	le.PutUint32(b[16:], n.Name.Index)
	copy(b[20:], n.Name.App[:])
	le.PutUint32(b[44:], n.number)
	return true
}

// tellAll tells every peer about the claim.
func (t *Table) tellAll(op byte, n *Entry) {
	for _, p := range t.peers {
		t.tellName(p, op, n, n.part(p))
	}
}

// tellNode tells to about another NIC, which it may not have heard of. It reports whether it did.
func (t *Table) tellNode(to, about *Peer, part byte) bool {
	a := about.Addr()
	if !tellable(a.Addr(), to.Addr().Addr()) {
		return false
	}
	b := t.nic.Record(to.Endpoint, nodeLen)
	if b == nil {
		return false
	}
	b[0], b[1] = wire.TableNode, part
	le.PutUint16(b[4:], a.Port())
	ip := a.Addr().As16()
	copy(b[8:], ip[:])
	le.PutUint64(b[24:], about.NIC())
	return true
}

// takeNode handles the news of another NIC.
func (t *Table) takeNode(p *Peer, b []byte) {
	ip := netip.AddrFrom16([16]byte(b[8:])).Unmap()
	id, addr := le.Uint64(b[24:]), netip.AddrPortFrom(ip, le.Uint16(b[4:]))
	if id == 0 || id == t.cfg.NIC || t.cfg.Static || t.nic.Peer(id) != nil ||
		!usable(addr) || !tellable(ip, p.Addr().Addr()) {
		return
	}
	if t.cfg.Vouched != nil && t.cfg.Vouched(id, addr) || t.cfg.Defect == mutate.HearsayUnbounded {
		if _, err := t.add(id, addr); err != nil {
			t.count(vni.DropRefusedHello)
		}
		return
	}
	t.hears(p, id, addr, b[1] == partFirst && !p.told)
}

// usable reports whether frames can go to an address.
func usable(a netip.AddrPort) bool {
	return a.IsValid() && a.Port() != 0 && !a.Addr().IsUnspecified() && !a.Addr().IsMulticast()
}

// tellable reports whether an address means the same to a NIC at the address to. A loopback
// address does so only on its own host, and an address with a zone only on its link.
func tellable(a, to netip.Addr) bool {
	return !a.IsLoopback() && !a.IsLinkLocalUnicast() || a == to || a.IsLoopback() && to.IsLoopback()
}

// tellTables tells a new peer all that this NIC knows: its own names, and the other NICs.
func (t *Table) tellTables(p *Peer) {
	records, promised := uint32(0), uint32(0)
	for _, n := range t.all {
		switch {
		case n.NIC != t.cfg.NIC || n.dead:
		case n.state == claimHeld:
			t.tellName(p, wire.TableClaim, n, partFirst)
			records++
		default:
			n.promised = append(n.promised, p)
			promised++
		}
	}
	for _, other := range t.peers {
		if other == p || !other.Up() {
			continue
		}
		if t.tellNode(p, other, partFirst) {
			records++
		}
		t.tellNode(other, p, partNone)
	}
	if b := t.nic.Record(p.Endpoint, syncLen); b != nil {
		b[0] = wire.TableSync
		le.PutUint32(b[4:], records)
		le.PutUint32(b[8:], promised)
	}
	if t.cfg.Position.Width > 0 {
		if b := t.nic.Record(p.Endpoint, placeLen); b != nil {
			b[0] = wire.TablePlace
			t.cfg.Position.Put(b[4:])
		}
	}
}
