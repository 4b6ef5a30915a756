package nic

import (
	"github.com/weftnet/weft/internal/freelist"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

// strays is the second half of a receive table: messages without a receive, oldest first. A sender
// that floods a process with small messages fills its staging with tens of thousands. Each receive
// of the process would search all of them, and the NIC's time would be lost to all processes. So
// when there are many, they are indexed: by sender and tag, by sender and port, by tag, and by
// port, each pile oldest first. A few are searched faster without an index.
//
//	receive     from a process             from any
//	one tag     pile of sender and tag     pile of the tag
//	any tag     pile of sender and port    pile of the port
type strays struct {
	list[inbound]
	piles map[pileKey]*list[inbound]   // nil: there is no index
	lists freelist.List[list[inbound]] // of piles
}

// pileKey identifies a pile. A pile of all senders has no name. A pile of a port has the port
// alone as its tag.
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

// named reports whether each pile of this kind belongs to one sender.
func (by pileKind) named() bool { return by == byBoth || by == bySender }

// tag returns the part of a tag that all messages of a pile of this kind share.
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

// add puts a message at the end.
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

// pile puts a message on its piles. In a flood, these are most often those of the message before
// it.
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

// remove removes a message.
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
		// A flood's memory is freed with its last message.
		s.piles, s.lists = nil, freelist.List[list[inbound]]{}
	}
}

// find returns the oldest message that a receive wants, or nil.
func (s *strays) find(e *Engine, r *receive) *inbound {
	if r.reply { // replies without a receive are not kept
		return nil
	}
	// A process that falls behind takes the messages in their order.
	if s.head != nil && r.takes(s.head.v) {
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

// key returns the key of the pile that holds all messages that a receive wants. ok is false if
// there is no index, or no such pile.
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
