package proc

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/vni"
)

// Probe waits for a message that a receive with these arguments would get, and describes it:
// m.Full is its length. The message stays where it is. If atOnce is set, Probe does not wait:
// found may be false, and the error is ErrQueueFull if all contexts are taken.
func (p *Process) Probe(ctx context.Context, from Dest, match Match, atOnce bool) (m Message, found bool, err error) {
	m, _, err = p.probe(ctx, "probe", from, match, atOnce)
	if errors.Is(err, errWithdrawn) {
		return Message{}, false, nil
	}
	return m, err == nil, err
}

// probe is Probe that also returns the message's ticket.
func (p *Process) probe(ctx context.Context, what string, from Dest, match Match,
	atOnce bool) (m Message, ticket uint64, err error) {
	r := request{what: what, code: vni.CodeProbe, receive: true, with: from}
	r.receiveRequest(match, 0, nil)
	if atOnce {
		r.recv.Most = 1
		var l lack
		if l, err = p.start(nil, &r); l != lackNothing {
			err = ErrQueueFull
		}
	} else {
		err = p.begin(ctx, nil, &r)
	}
	if err != nil {
		return m, 0, r.fail(err)
	}
	m, err = p.end(ctx, r.op)
	n := uint64(m.Len)
	ticket, m.Full, m.Len, m.Token = m.Full-n, n, 0, Token(m.Token.sent())
	return m, ticket, err
}

// RecvAlloc is Recv that allocates the memory when it knows the length of the message. If the
// message is longer than limit, RecvAlloc returns its first limit bytes with ErrTruncated.
func (p *Process) RecvAlloc(ctx context.Context, from Dest, match Match, limit int) (m Message, buf []byte, err error) {
	for {
		probed, ticket, err := p.probe(ctx, "receive", from, match, false)
		if err != nil {
			return m, nil, err
		}
		buf = make([]byte, min(probed.Full, uint64(limit)))
		r := request{what: "receive", code: vni.CodeReceive, receive: true, with: probed.Source(), waits: true}
		r.receiveRequest(Tagged(probed.Tag), 0, buf)
		r.recv.Most = ticket
		if err := p.begin(ctx, nil, &r); err != nil {
			return m, nil, r.fail(err)
		}
		m, err = p.end(ctx, r.op)
		switch {
		// Another receive has taken the message, or its sender has given up.
		case errors.Is(err, errWithdrawn):
			continue
		case err != nil && !errors.Is(err, ErrTruncated):
			return m, nil, err
		}
		return m, buf[:m.Len], err
	}
}
