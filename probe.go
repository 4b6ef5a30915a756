package weft

import (
	"context"
)

// Probe waits until an unexpected message from that source and with that tag waits for a receive, and
// describes it without receiving it: Full is its length, and Len is 0. A message that meets a posted
// receive never waits, so Probe does not see it. Another receive may take the message before the
// caller does; [Process.RecvAlloc] has no such gap.
func (p *port) Probe(ctx context.Context, from Name, tag Tag) (m Message, err error) {
	m, _, err = p.probe(ctx, from, tag, false)
	return m, err
}

// TryProbe is Probe that does not wait: found is false if no such message waits now. It fails with
// [ErrQueueFull] if too many receives and probes are in flight.
func (p *port) TryProbe(ctx context.Context, from Name, tag Tag) (m Message, found bool, err error) {
	return p.probe(ctx, from, tag, true)
}

func (p *port) probe(ctx context.Context, from Name, tag Tag, atOnce bool) (m Message, found bool, err error) {
	if err := ended(ctx, "probe"); err != nil {
		return m, false, err
	}
	d, match, err := p.Peer(from).source("probe", tag)
	if err != nil {
		return m, false, err
	}
	pm, found, err := p.p.Probe(ctx, d, match, atOnce)
	if err == nil && found {
		m.set(p.names, &pm)
	}
	return m, found, opError(err)
}
