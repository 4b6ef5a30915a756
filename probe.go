package weft

import (
	"context"
	"fmt"
)

// Probe waits until a message waits for a [Process.Recv] from that source and with that tag, and tells of it without receiving it: Full is
// its length, and Len is 0. A message that finds a receive when it comes never waits, so no Probe is told of it. By the time of a receive
// after Probe another receive may have taken the message; [Process.RecvAlloc] has no such gap.
func (p *port) Probe(ctx context.Context, from Name, tag Tag) (m Message, err error) {
	m, _, err = p.probe(ctx, from, tag, false)
	return m, err
}

// TryProbe is Probe that does not wait: found is false if no such message waits now. It fails with [ErrQueueFull] when as many receives and
// probes are under way as the process may have at a time.
func (p *port) TryProbe(ctx context.Context, from Name, tag Tag) (m Message, found bool, err error) {
	return p.probe(ctx, from, tag, true)
}

func (p *port) probe(ctx context.Context, from Name, tag Tag, atOnce bool) (m Message, found bool, err error) {
	if err := ended(ctx, "probe"); err != nil {
		return m, false, err
	}
	d, match, err := p.source("probe", from, tag)
	if err != nil {
		return m, false, err
	}
	pm, found, err := p.p.Probe(ctx, d, match, atOnce)
	if err == nil && found {
		m.set(p.names, &pm)
	}
	return m, found, err
}

// RecvAlloc receives one message, of whatever length, into memory that it allocates for it. Of a message longer than limit it is the first
// limit bytes, with [ErrTruncated]; so no sender has a receiver allocate more. In matching it comes after the receives that are posted: it gets
// a message that none of them takes. If ctx ends first, no message is lost.
//
// It asks the NIC twice, first how long the message is. [Process.Recv] and [Inbox], which are given their memory, are faster.
func (p *port) RecvAlloc(ctx context.Context, from Name, tag Tag, limit int) (m Message, data []byte, err error) {
	if err := ended(ctx, "receive"); err != nil {
		return m, nil, err
	}
	if limit < 0 {
		return m, nil, &OpError{Op: "receive", Err: fmt.Errorf("%w: a limit of %d bytes; expected 0 or more", ErrBadArgument, limit)}
	}
	d, match, err := p.source("receive", from, tag)
	if err != nil {
		return m, nil, err
	}
	pm, data, err := p.p.RecvAlloc(ctx, d, match, limit)
	m.set(p.names, &pm)
	return m, data, err
}
