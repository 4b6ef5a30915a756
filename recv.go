package weft

import (
	"context"
	"fmt"

	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/vni"
)

// Message describes a received message.
type Message struct {
	From Name    // the sender's name; AnyProcess if the NIC does not know it
	Addr Address // the sender: one process in one life
	Tag  Tag     // 0 for the reply to a Call
	Len  int     // bytes received
	Full int     // bytes of the whole message: more than Len if it was truncated

	// Data holds the received bytes of a message from [Inbox.Next], [Inbox.All] or
	// [Process.RecvAlloc]. The other forms receive into the caller's buffer and leave Data nil.
	Data []byte

	token proc.Token
}

// IsCall reports whether the sender waits for a [Process.Reply].
func (m *Message) IsCall() bool { return m.token.IsCall() }

// set fills m in place, because a copy costs more.
func (m *Message) set(names *nameCache, pm *proc.Message) {
	m.From = names.name(&pm.From)
	m.Addr = Address{NICID(pm.NIC), pm.Slot, pm.Gen}
	m.Tag, m.Len, m.Full, m.token = Tag(pm.Tag&vni.TagMask), pm.Len, int(pm.Full), pm.Token
}

// Recv receives one message into buf, from the process with a name or from [AnyProcess], with one
// tag or with [AnyTag].
//
// If several receives match a message, the one that was posted first gets it. A message that is
// longer than buf fails with [ErrTruncated]; buf then holds its beginning, and the Message is
// valid. Messages of one sender match in the order in which it sent them.
//
// If ctx ends first, Recv returns ctx's error and loses no message. If a message is arriving at
// that moment, Recv returns it and no error.
func (p *port) Recv(ctx context.Context, from Name, tag Tag, buf []byte) (m Message, err error) {
	err = p.Peer(from).recv(ctx, &m, tag, buf)
	return m, err
}

// Recv receives one message from the peer into buf, as [Process.Recv] does. From a Peer by address
// it fails with [ErrProcessGone] when that process has ended and none of its messages is left.
func (r Peer) Recv(ctx context.Context, tag Tag, buf []byte) (m Message, err error) {
	err = r.recv(ctx, &m, tag, buf)
	return m, err
}

// recv receives in place, since a Message is long.
func (r Peer) recv(ctx context.Context, m *Message, tag Tag, buf []byte) error {
	const op = "receive"
	if err := ended(ctx, op); err != nil {
		return err
	}
	if r.p == nil {
		return errNoPeer(op)
	}
	match, ok := r.p.match(tag)
	if !ok {
		return r.p.badTag(op, tag)
	}
	k := r.k
	if k == nil || k.bad != nil {
		return r.recvAt(ctx, m, match, buf)
	}
	if met := r.p.p.Meet(&k.dest.Name, match, buf); met.From != nil {
		who := met.From
		if k.named {
			m.From = k.name
		} else {
			m.From = r.p.names.name(&who.Name)
		}
		m.Addr = Address{NICID(who.NIC), who.Slot, who.Gen}
		m.Tag, m.Len, m.Full = Tag(met.Tag&vni.TagMask), met.Len, met.Len
		return nil
	}
	return r.p.await(ctx, m, &k.dest, match, buf)
}

// recvAt receives from a Peer by address.
func (r Peer) recvAt(ctx context.Context, m *Message, match proc.Match, buf []byte) error {
	d, err := r.dest("receive")
	if err != nil {
		return err
	}
	return r.p.await(ctx, m, &d, match, buf)
}

// await receives a message that does not come at once.
func (p *port) await(ctx context.Context, m *Message, from *proc.Dest, match proc.Match, buf []byte) error {
	var pm proc.Message
	err := p.p.RecvInto(ctx, &pm, from, match, buf)
	m.set(p.names, &pm)
	return opError(err)
}

// source checks which messages a receive takes.
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

// RecvAlloc receives one message of any length into memory that it allocates: [Message].Data. It
// keeps at most limit bytes of a longer message, with [ErrTruncated], so a sender cannot force a
// larger allocation. It gets only messages that no posted receive matches. If ctx ends first, no
// message is lost.
//
// RecvAlloc asks the NIC twice, since it needs the length first. [Process.Recv] and [Inbox] are
// faster.
func (p *port) RecvAlloc(ctx context.Context, from Name, tag Tag, limit int) (m Message, err error) {
	const op = "receive"
	if err := ended(ctx, op); err != nil {
		return m, err
	}
	if limit < 0 {
		err := fmt.Errorf("%w: a limit of %d bytes; expected 0 or more", ErrBadArgument, limit)
		return m, &OpError{Op: op, Err: err}
	}
	d, match, err := p.Peer(from).source(op, tag)
	if err != nil {
		return m, err
	}
	pm, data, err := p.p.RecvAlloc(ctx, d, match, limit)
	m.set(p.names, &pm)
	m.Data = data
	return m, opError(err)
}
