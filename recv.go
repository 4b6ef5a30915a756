package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Message describes a received message.
type Message struct {
	From Name    // the sender's name; AnyProcess if the NIC does not know the name
	Addr Address // the sender's address
	Tag  Tag     // the tag; 0 in the reply to a Call
	Len  int     // the number of bytes received
	Full int     // the length of the whole message; more than Len if the message was truncated

	// Data holds the received bytes of a message from [Inbox.Next], [Inbox.All] or
	// [Process.RecvAlloc]. The other receives write into the caller's buffer and leave Data nil.
	Data []byte

	token  proc.Token
	sender uint64 // the number that an Inbox gave From and Addr; 0: no Inbox wrote them
}

// IsCall reports whether the message is the request of a [Peer.Call]. The sender of such a message
// waits for a [Process.Reply].
func (m *Message) IsCall() bool { return m.token.IsCall() }

// set fills m in place, because returning a Message by value is slower.
func (m *Message) set(names *nameCache, pm *proc.Message) {
	m.From = names.name(&pm.From)
	m.Addr = Address{NICID(pm.NIC), pm.Slot, pm.Gen}
	m.Tag, m.Len, m.Full, m.token = Tag(pm.Tag&vni.TagMask), pm.Len, int(pm.Full), pm.Token
}

// Recv receives one message into buf. The message comes from the process with the name sender, or
// from any process if sender is [AnyProcess]. It has the given tag, or any tag if tag is [AnyTag].
//
// If several receives match a message, the receive that was posted first gets the message. Messages
// from one sender are matched in the order in which they were sent. If the message is longer than
// buf, Recv fails with [ErrTruncated]. Then buf holds the beginning of the message, and the
// returned Message is valid.
//
// A name may pass to a later process. So if the process with the name sender has ended before Recv
// begins, Recv waits for a message from the next process with that name. If the process with that
// name ends during Recv, Recv fails with [ErrProcessGone].
//
// If ctx ends first, Recv returns ctx's error, and no message is lost. If a message is already
// arriving when ctx ends, Recv returns the message and a nil error.
func (p *port) Recv(ctx context.Context, sender Name, tag Tag, buf []byte) (m Message, err error) {
	// known is inlined, unlike find: a call is 1 % of a round trip over shared memory.
	k := p.names.known(&sender)
	if k == nil {
		k = p.names.learn(sender)
	}
	err = p.recv(ctx, &m, k, tag, buf)
	return m, err
}

// Recv receives one message from the peer into buf, like [Process.Recv]. If the Peer was made from
// an address, Recv fails with [ErrProcessGone] when the process with this address has ended and all
// messages from that process have been received.
func (r Peer) Recv(ctx context.Context, tag Tag, buf []byte) (m Message, err error) {
	if r.k != nil {
		err = r.p.recv(ctx, &m, r.k, tag, buf)
	} else {
		err = r.recvAt(ctx, &m, tag, buf)
	}
	return m, err
}

// recv receives from the process with a name into *m, because a Message is long.
func (p *port) recv(ctx context.Context, m *Message, k *knownName, tag Tag, buf []byte) error {
	const op = "receive"
	if ctx.Err() != nil {
		return Peer{p: p, k: k}.ended(ctx, op)
	}
	match, ok := p.match(tag)
	if !ok {
		return p.badTag(op, tag)
	}
	if k.bad != nil {
		return &OpError{Op: op, Err: k.bad}
	}
	if met := p.p.Meet(&k.dest.Name, match, buf); met.From != nil {
		who := met.From
		if k.named {
			m.From = k.name
		} else {
			m.From = p.names.name(&who.Name)
		}
		m.Addr = Address{NICID(who.NIC), who.Slot, who.Gen}
		m.Tag, m.Len, m.Full = Tag(met.Tag&vni.TagMask), met.Len, met.Len
		return nil
	}
	return p.await(ctx, m, &k.dest, match, buf)
}

// recvAt receives from a Peer that was made from an address.
func (r Peer) recvAt(ctx context.Context, m *Message, tag Tag, buf []byte) error {
	const op = "receive"
	if err := r.ended(ctx, op); err != nil {
		return err
	}
	d, match, err := r.source(op, tag)
	if err != nil {
		return err
	}
	return r.p.await(ctx, m, &d, match, buf)
}

// await receives a message that is not available at once.
func (p *port) await(ctx context.Context, m *Message, from *proc.Dest, match proc.Match, buf []byte) error {
	var pm proc.Message
	err := p.p.RecvInto(ctx, &pm, from, match, buf)
	m.set(p.names, &pm)
	return opError(err)
}

// source checks the sender and the tag of a receive, and returns both as the NIC knows them.
func (r Peer) source(op string, tag Tag) (d proc.Dest, m proc.Match, err error) {
	if r.p == nil {
		return d, m, errNoPeer(op)
	}
	m, ok := r.p.match(tag)
	if !ok {
		return d, m, r.p.badTag(op, tag)
	}
	d, err = r.dest(op)
	return d, m, err
}

// RecvAlloc receives one message of any length into memory that it allocates: [Message].Data. The
// parameters sender and tag have the same meaning as in [Process.Recv]. If the message is longer
// than maxBytes bytes, RecvAlloc keeps the first maxBytes bytes and fails with [ErrTruncated]. So a
// sender cannot force a larger allocation. If a posted receive matches a message, that receive gets
// the message, and RecvAlloc does not. If ctx ends first, no message is lost.
//
// RecvAlloc asks the NIC for the length of the message before it receives the message.
// [Process.Recv] and [Inbox] ask the NIC only once for each message, and so are faster.
func (p *port) RecvAlloc(ctx context.Context, sender Name, tag Tag, maxBytes int) (m Message, err error) {
	const op = "receive"
	if err := p.Peer(sender).ended(ctx, op); err != nil {
		return m, err
	}
	if maxBytes < 0 {
		err := fmt.Errorf("%w: a limit of %d bytes; expected 0 or more", ErrBadArgument, maxBytes)
		return m, &OpError{Op: op, Err: err}
	}
	d, match, err := p.Peer(sender).source(op, tag)
	if err != nil {
		return m, err
	}
	pm, data, err := p.p.RecvAlloc(ctx, d, match, maxBytes)
	m.set(p.names, &pm)
	m.Data = data
	return m, opError(err)
}
