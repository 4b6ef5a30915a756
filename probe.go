package weft

import "context"

// Probe waits for an unexpected message and describes it without receiving it. In the returned
// Message, Full is the length in bytes and Len is 0. The parameters sender and tag have the same
// meaning as in [Process.Recv]. A message is unexpected if no posted receive matched it when it
// arrived. After Probe returns, another receive may take the message before the caller receives it.
// To probe and receive in one step, use [Process.RecvAlloc].
func (p *port) Probe(ctx context.Context, sender Name, tag Tag) (m Message, err error) {
	m, _, err = p.probe(ctx, sender, tag, false)
	return m, err
}

// TryProbe is like [Process.Probe], but it does not wait for a message. If there is no matching
// message, found is false. TryProbe fails with [ErrQueueFull] if too many receives and probes are
// in flight.
func (p *port) TryProbe(ctx context.Context, sender Name, tag Tag) (m Message, found bool, err error) {
	return p.probe(ctx, sender, tag, true)
}

func (p *port) probe(ctx context.Context, sender Name, tag Tag, atOnce bool) (m Message, found bool, err error) {
	if err := p.Peer(sender).ended(ctx, "probe"); err != nil {
		return m, false, err
	}
	d, match, err := p.Peer(sender).source("probe", tag)
	if err != nil {
		return m, false, err
	}
	pm, found, err := p.p.Probe(ctx, d, match, atOnce)
	if err == nil && found {
		m.set(p.names, &pm)
	}
	return m, found, opError(err)
}
