package proc

import (
	"context"
	"errors"

	"github.com/weftnet/weft/internal/vni"
)

// Probe waits until a message waits for a receive that would take it, and tells of it: m.Full is its length. The message stays where
// it is. If atOnce it does not wait: found may be false, and the error is ErrQueueFull if all contexts are taken.
func (p *Process) Probe(ctx context.Context, from Dest, match Match, atOnce bool) (m Message, found bool, err error) {
	m, _, err = p.probe(ctx, "probe", from, match, atOnce)
	if errors.Is(err, errWithdrawn) {
		return Message{}, false, nil
	}
	return m, err == nil, err
}

// probe is Probe that returns the message's ticket as well.
func (p *Process) probe(ctx context.Context, what string, from Dest, match Match, atOnce bool) (m Message, ticket uint64, err error) {
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

// RecvAlloc is Recv into memory that it allocates when it knows how long the message is. Of one that is longer than limit it is the first
// limit bytes, with ErrTruncated.
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
		case errors.Is(err, errWithdrawn): // another receive has taken it, or its sender has given up
			continue
		case err != nil && !errors.Is(err, ErrTruncated):
			return m, nil, err
		}
		return m, buf[:m.Len], err
	}
}
