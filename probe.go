package weft

import "context"

// Probe waits for an unexpected message from a sender and with a tag, and describes it without
// receiving it: Full is its length in bytes, and Len is 0. An unexpected message is one that no
// posted receive matched when it arrived. Another receive may take the message before the caller
// does; use [Process.RecvAlloc] to probe and receive in one step.
func (p *port) Probe(ctx context.Context, from Name, tag Tag) (m Message, err error) {
	m, _, err = p.probe(ctx, from, tag, false)
	return m, err
}

// TryProbe probes as [Process.Probe] does, but does not wait for a message: found is false if there
// is none. It fails with [ErrQueueFull] if too many receives and probes are in flight.
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
