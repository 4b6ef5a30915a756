package nic

import (
	"encoding/binary"
	"slices"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/internal/wire"
)

// Revocation lists spread from NIC to NIC. A NIC sends the newest list of each authority to a peer
// when their session opens, and to all peers when it takes a newer one. A list is verified before
// it is kept or passed on, so that each NIC passes a list on once, and a hostile peer can cause no
// more. A list comes in pieces, Table records that arrive in any order:
//
//	 0  12          1
//	 1  zero        3
//	 4  total       4   bytes of the list
//	 8  offset      4   of this piece in it, a multiple of 384
//	12  zero        4
//	16  authority   8
//	24  number      8   of the list
//	32  bytes           384, or what is left of the list
const (
	revocationHead  = 32
	revocationPiece = 384 // so that a record fits into the smallest frame
)

// revocations holds the engine's work on revocation lists.
type revocations struct {
	changes  uint64          // lists accepted
	arriving []*arrivingList // oldest first
	recheck  bool            // a list was accepted, and peers have yet to be checked
	spread   []spreadList    // lists that have yet to be sent to all peers
}

// spreadList is a list that is sent to all peers but the one that sent it.
type spreadList struct {
	encoded []byte
	head    listHead
	teller  *peer // nil: this NIC's owner
}

// listHead identifies a list.
type listHead struct {
	authority trust.CAID
	number    uint64
}

// arrivingList is a list of which some pieces have arrived from a peer.
type arrivingList struct {
	from   *peer
	head   listHead
	body   []byte
	pieces uint64 // bit i: piece i has arrived
	left   int    // pieces that have not arrived
}

// Revoke accepts an encoded revocation list, from a file or a tool. If it is newer than the
// present list of its authority, it is sent to all peers, and sessions with peers that it revokes
// end soon. The error is one of package trust.
func (e *Engine) Revoke(list []byte) (newer bool, err error) {
	e.begin()
	return e.takeList(list, nil)
}

// Revocations returns the newest list of each authority, ordered by authority. changes grows
// whenever a list is replaced.
func (e *Engine) Revocations() (lists []*trust.RevocationList, changes uint64) {
	e.begin()
	if e.cfg.Trust == nil {
		return nil, 0
	}
	return e.cfg.Trust.Revocations(), e.peers.lists.changes
}

// takeList verifies and keeps a list. Its effects wait for the next poll: the list may have
// arrived in a session that it ends.
func (e *Engine) takeList(list []byte, teller *peer) (newer bool, err error) {
	if e.cfg.Trust == nil {
		return false, trust.ErrOtherFabric
	}
	if newer, err = e.cfg.Trust.Revoke(list); !newer {
		return false, err
	}
	l, err := trust.ParseRevocationList(list)
	if err != nil {
		panic("nic: a list that the policy has taken is malformed: " + err.Error())
	}
	v := &e.peers.lists
	v.changes++
	v.recheck = true
	v.spread = append(v.spread, spreadList{slices.Clone(list), listHead{l.CA, l.Number}, teller})
	e.counts[vni.NICRevocations]++
	e.peers.news.changes++
	e.expiry.at(e.now)
	return true, nil
}

// enforce ends sessions with peers that are no longer trusted, and sends new lists to the others.
func (e *Engine) enforce() {
	v := &e.peers.lists
	if !v.recheck {
		return
	}
	v.recheck = false
	for _, pr := range slices.Clone(e.peers.list) {
		if pr.proved.NIC == 0 || !pr.ep.Up() {
			continue
		}
		if err := e.cfg.Trust.StillGood(pr.proved, e.wallSeconds(e.now)); err != nil {
			e.peers.news.refuse(e.now, pr.nic, pr.ep.Addr(), err) // before its session ends
			e.rel.Expel(e.now, pr.ep)
		}
	}
	for i := range v.spread {
		l := &v.spread[i]
		for _, pr := range e.peers.list {
			if pr != l.teller && pr.proved.NIC != 0 && pr.ep.Up() {
				e.sendList(pr, l.head, l.encoded)
			}
		}
	}
	v.spread = nil
}

// sendLists sends a peer all present lists when a session opens.
func (e *Engine) sendLists(pr *peer) {
	if pr.proved.NIC == 0 {
		return
	}
	for _, l := range e.cfg.Trust.Revocations() {
		e.sendList(pr, listHead{l.CA, l.Number}, l.Append(nil))
	}
}

// sendList sends a list. Its records cannot be refused: each list is sent once in a session, and
// has at most limits.RevocationBytes.
func (e *Engine) sendList(pr *peer, head listHead, list []byte) {
	for at := 0; at < len(list); at += revocationPiece {
		piece := list[at:min(at+revocationPiece, len(list))]
		b := (*services)(e).Record(pr.ep, revocationHead+len(piece))
		if b == nil {
			return
		}
		b[0] = wire.TableRevocation
		binary.LittleEndian.PutUint32(b[4:], uint32(len(list)))
		binary.LittleEndian.PutUint32(b[8:], uint32(at))
		binary.LittleEndian.PutUint64(b[16:], uint64(head.authority))
		binary.LittleEndian.PutUint64(b[24:], head.number)
		copy(b[revocationHead:], piece)
	}
}

// takePiece handles a piece of a list. It returns false if the record is not one.
func (e *Engine) takePiece(pr *peer, b []byte) bool {
	if len(b) <= revocationHead || b[0] != wire.TableRevocation || b[1]|b[2]|b[3] != 0 ||
		binary.LittleEndian.Uint32(b[12:]) != 0 {
		return false
	}
	total, at := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	piece := b[revocationHead:]
	if total > limits.RevocationBytes || at%revocationPiece != 0 || at >= total ||
		len(piece) != int(min(revocationPiece, total-at)) {
		return false
	}
	head := listHead{trust.CAID(binary.LittleEndian.Uint64(b[16:])), binary.LittleEndian.Uint64(b[24:])}
	if pr.badList || !e.wants(head) {
		return true
	}
	l := e.arrivingList(pr, head, int(total))
	if bit := uint64(1) << (at / revocationPiece); l != nil && l.pieces&bit == 0 {
		l.pieces |= bit
		l.left--
		copy(l.body[at:], piece)
		if l.left == 0 {
			e.arrivedList(l)
		}
	}
	return true
}

// wants reports whether a list would be newer than that of its authority here.
func (e *Engine) wants(head listHead) bool {
	return e.cfg.Trust != nil && e.cfg.Trust.Wants(head.authority, head.number)
}

// arrivingList returns the list to which a piece belongs, or nil if the pieces contradict one
// another. A peer has one arriving list of an authority at a time, and a newer list displaces it.
// Beyond limits.ArrivingLists, the oldest is dropped.
func (e *Engine) arrivingList(pr *peer, head listHead, total int) *arrivingList {
	v := &e.peers.lists
	for i, l := range v.arriving {
		switch {
		case l.from != pr || l.head.authority != head.authority || l.head.number < head.number:
			continue
		case l.head != head, len(l.body) != total:
			return nil
		}
		return v.arriving[i]
	}
	v.arriving = slices.DeleteFunc(v.arriving, func(l *arrivingList) bool {
		return l.from == pr && l.head.authority == head.authority
	})
	if len(v.arriving) >= limits.ArrivingLists {
		v.arriving = slices.Delete(v.arriving, 0, 1)
	}
	l := &arrivingList{from: pr, head: head, body: make([]byte, total),
		left: (total + revocationPiece - 1) / revocationPiece}
	v.arriving = append(v.arriving, l)
	return l
}

// arrivedList accepts a list that has arrived whole. A correct NIC passes no bad list on: lists of
// a peer that sends one are ignored for the rest of the session.
func (e *Engine) arrivedList(l *arrivingList) {
	v := &e.peers.lists
	v.arriving = slices.DeleteFunc(v.arriving, func(o *arrivingList) bool { return o == l })
	if _, err := e.takeList(l.body, l.from); err != nil {
		l.from.badList = true
		e.counts[vni.NICRevocationsRefused]++
	}
	v.arriving = slices.DeleteFunc(v.arriving, func(o *arrivingList) bool { return !e.wants(o.head) })
}

// forgetLists drops the pieces of a peer whose session has ended.
func (e *Engine) forgetLists(pr *peer) {
	pr.badList = false
	v := &e.peers.lists
	v.arriving = slices.DeleteFunc(v.arriving, func(l *arrivingList) bool { return l.from == pr })
}
