package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft"
)

// LinkCalls holds the system calls per message of embedded NICs, by the counters of their links.
// Staged is the share of the messages that were copied once more because they found no receive.
type LinkCalls struct {
	LinkMessages int64   `json:"messages"`
	Sender       float64 `json:"sender_calls_per_message"`
	Receiver     float64 `json:"receiver_calls_per_message"`
	Staged       float64 `json:"staged_per_message"`
}

// localPair is two processes of this program, each with an embedded NIC.
type localPair struct {
	client *Client
	server *weft.Process
	nics   [2]*weft.NIC // the client's, and the server's
}

// localPairOn makes a pair joined by a link.
func (u *undo) localPairOn(ctx context.Context, link string, sealing Sealing, faults *weft.Faults) (*localPair, error) {
	at, err := weft.ParseLink((&Options{Link: link}).anyAddress())
	if err != nil {
		return nil, err
	}
	return u.localPair(ctx, link, sealing.over(weft.Config{Link: at, Faults: faults}))
}

// localPair makes a pair with the configuration cfg.
func (u *undo) localPair(ctx context.Context, link string, cfg weft.Config) (*localPair, error) {
	cfg.Name = ServerName
	server, err := weft.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- Serve(serving, server, Setup{link, DeployedEmbedded}) }()
	u.add(func() error {
		stop()
		return errors.Join(<-ended, server.Close())
	})
	cfg.Name, cfg.Nodes = ClientName, []weft.Node{{ID: server.NIC().ID(), Addr: server.NIC().Addr()}}
	client, err := weft.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	u.add(client.Close)
	if _, err := client.WaitName(ctx, ServerName); err != nil {
		return nil, err
	}
	return &localPair{NewClient(client, ServerName), server, [2]*weft.NIC{client.NIC(), server.NIC()}}, nil
}

// count returns the growth of the counters of both NICs while run runs.
func (p *localPair) count(run func() error) (grown [2]map[string]uint64, err error) {
	before := [2]map[string]uint64{p.nics[0].Counters(), p.nics[1].Counters()}
	err = run()
	for i, n := range p.nics {
		grown[i] = n.Counters()
		for name, v := range before[i] {
			grown[i][name] -= v
		}
	}
	return grown, err
}

// countLinkCalls counts the calls of a stream of short messages, and of round trips.
func countLinkCalls(ctx context.Context, o NetstarOptions, out func(NetstarRow) error) error {
	for _, link := range []string{LinkShm, LinkUDP} {
		if err := o.linkCallsOf(ctx, link, out); err != nil {
			return fmt.Errorf("link %s: %w", link, err)
		}
	}
	return nil
}

func (o *NetstarOptions) linkCallsOf(ctx context.Context, link string, out func(NetstarRow) error) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	p, err := down.localPairOn(ctx, link, o.Sealing, nil)
	if err != nil {
		return err
	}
	for _, way := range []struct {
		how string
		run func() error
	}{
		{"round trips", func() error { _, err := p.client.roundTrips(ctx, callSize, o.Time); return err }},
		{"one way, many at a time", func() error { _, err := p.client.Stream(ctx, callSize, o.Time); return err }},
	} {
		grown, err := p.count(way.run)
		if err != nil {
			return fmt.Errorf("%s: %w", way.how, err)
		}
		n := float64(grown[1]["nic_messages_received"])
		err = out(NetstarRow{How: way.how, Link: link, Deployment: DeployedEmbedded, Size: callSize, OfLink: &LinkCalls{
			LinkMessages: int64(n), Sender: float64(grown[0]["link_system_calls"]) / n,
			Receiver: float64(grown[1]["link_system_calls"]) / n,
			Staged:   float64(grown[1]["nic_unexpected"]) / n,
		}})
		if err != nil {
			return err
		}
	}
	return nil
}
