package nic

import (
	"github.com/weftnet/weft/internal/freelist"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// strays are the second half of a receive table: messages without a receive, oldest first. A sender that floods a
// process with small ones fills its staging with tens of thousands, and each of its receives would go through all of them, in
// the NIC's time and so in that of all. So many are indexed: by sender and tag, by sender and port, by tag, by port, each pile oldest first.
// Few are searched faster as they are.
//
//	receive     from a process             from any
//	one tag     pile of sender and tag     pile of the tag
//	any tag     pile of sender and port    pile of the port
type strays struct {
	list[inbound]
	piles map[pileKey]*list[inbound]   // nil: there is no index
	lists freelist.List[list[inbound]] // of piles
}

// pileKey names a pile. A pile of whatever sender's has no name; of that of a port tag is the port alone.
type pileKey struct {
	name vni.Name
	tag  uint64
	by   pileKind
}

type pileKind uint8

const (
	byBoth pileKind = iota
	bySender
	byTag
	byPort
	pileKinds
)

// named reports whether the piles of a kind are of one sender each.
func (by pileKind) named() bool { return by == byBoth || by == bySender }

// tag is what of a tag the piles of a kind have in common.
func (by pileKind) tag(tag uint64) uint64 {
	if by == byBoth || by == byTag {
		return tag
	}
	return tag & vni.PortMask
}

func keyOf(by pileKind, name vni.Name, tag uint64) pileKey {
	if !by.named() {
		name = vni.Name{}
	}
	return pileKey{name, by.tag(tag), by}
}

// add puts a message behind all others.
func (s *strays) add(inb *inbound) {
	s.pushBack(&inb.node)
	switch {
	case s.piles != nil:
		s.pile(inb)
	case s.n > limits.SearchedMessages:
		s.piles = make(map[pileKey]*list[inbound])
		for inb := range s.all {
			s.pile(inb)
		}
	}
}

// pile puts a message on its piles. Those of a flood are mostly the ones of the message before it.
func (s *strays) pile(inb *inbound) {
	var before *inbound
	if n := inb.node.prev; n != nil && n.v.piled() {
		before = n.v
	}
	for by := range pileKinds {
		var l *list[inbound]
		if before != nil && (before.src == inb.src || !by.named()) && by.tag(before.env.Tag) == by.tag(inb.env.Tag) {
			l = before.piles[by].in
		} else {
			k := keyOf(by, inb.src.name, inb.env.Tag)
			if l = s.piles[k]; l == nil {
				l = s.lists.Take()
				s.piles[k] = l
			}
		}
		inb.piles[by].v = inb
		l.pushBack(&inb.piles[by])
	}
}

// piled reports whether a message is on piles.
func (inb *inbound) piled() bool { return inb.piles[byBoth].in != nil }

// remove takes a message out.
func (s *strays) remove(inb *inbound) {
	inb.node.remove()
	if inb.piled() {
		for by := range pileKinds {
			l := inb.piles[by].in
			inb.piles[by].remove()
			if l.n == 0 {
				s.lists.Give(l)
				delete(s.piles, keyOf(by, inb.src.name, inb.env.Tag))
			}
		}
	}
	if s.n == 0 {
		s.piles, s.lists = nil, freelist.List[list[inbound]]{} // a flood's memory goes with it
	}
}

// find returns the oldest message that a receive wants, or nil.
func (s *strays) find(e *Engine, r *receive) *inbound {
	if r.reply { // replies without a receive are not kept
		return nil
	}
	if s.head != nil && r.takes(s.head.v) { // a process that falls behind takes them in their order
		return s.head.v
	}
	among := &s.list
	if k, ok := s.key(e, r); ok {
		if among = s.piles[k]; among == nil {
			return nil
		}
	}
	for n := among.head; n != nil; n = n.next {
		if r.takes(n.v) {
			return n.v
		}
	}
	return nil
}

// key names the pile in which all is that a receive wants. There is none if little is there.
func (s *strays) key(e *Engine, r *receive) (k pileKey, ok bool) {
	name := r.sender
	if r.exact {
		var pr *peer
		if r.from.NIC != e.cfg.ID {
			pr = e.peerOf(r.from.NIC)
		}
		src := r.p.sources[sourceKey{pr, r.from.Slot, r.from.Gen}]
		if src == nil || src.nic != r.from.NIC {
			return k, false
		}
		name = src.name
	}
	by := byBoth
	switch anyTag := r.tags.Any(); {
	case s.piles == nil:
		return k, false
	case name.IsZero() && anyTag:
		by = byPort
	case name.IsZero():
		by = byTag
	case anyTag:
		by = bySender
	}
	return keyOf(by, name, r.tags.Tag()), true
}
