package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weftnet/weft"
)

// LinkCalls are the system calls that NICs inside the program have made for a message, by the counters of their links, and the messages that they have
// copied once more than those that found their receive.
type LinkCalls struct {
	LinkMessages int64   `json:"messages"`
	Sender       float64 `json:"sender_calls_per_message"`
	Receiver     float64 `json:"receiver_calls_per_message"`
	Staged       float64 `json:"staged_per_message"`
}

// Recovery is what losses have cost.
type Recovery struct {
	Loss       float64 `json:"loss"` // share of the frames, each way
	RoundTrips int64   `json:"round_trips"`
	CleanP50   int64   `json:"clean_p50_ns"` // without loss, beside it
	P50        int64   `json:"p50_ns"`
	P99        int64   `json:"p99_ns"`
	P999       int64   `json:"p999_ns"`
	Again      uint64  `json:"retransmissions"`
	ByTimer    uint64  `json:"by_timeout"`
	ByTail     uint64  `json:"by_tail_probe"`
	ByAck      uint64  `json:"by_acknowledgement"`
	Delay      int64   `json:"delay_p50_ns"`       // of the round trips of which a frame was lost: how much longer the one in their middle took
	CleanDelay int64   `json:"clean_delay_p50_ns"` // as many of the longest without loss, likewise: what of that is the machine's
}

// localPair is two processes of this program, each with a NIC of its own.
type localPair struct {
	client *Client
	nics   [2]*weft.NIC // the client's, and the server's
}

func (u *undo) localPair(ctx context.Context, link string, faults *weft.Faults) (*localPair, error) {
	at, err := weft.ParseLink((&Options{Link: link}).anyAddress())
	if err != nil {
		return nil, err
	}
	server, err := weft.Open(ctx, weft.Config{Name: ServerName, Link: at, Faults: faults})
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
	client, err := weft.Open(ctx, weft.Config{Name: ClientName, Link: at, Faults: faults, Nodes: []weft.Node{{ID: server.NIC().ID(), Addr: server.NIC().Addr()}}})
	if err != nil {
		return nil, err
	}
	u.add(client.Close)
	if _, err := client.WaitName(ctx, ServerName); err != nil {
		return nil, err
	}
	return &localPair{NewClient(client, ServerName), [2]*weft.NIC{client.NIC(), server.NIC()}}, nil
}

// count is what counters of both NICs have grown by meanwhile.
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

// countLinkCalls counts those of a stream of short messages, and of round trips.
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
	p, err := down.localPair(ctx, link, nil)
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
			LinkMessages: int64(n), Sender: float64(grown[0]["link_system_calls"]) / n, Receiver: float64(grown[1]["link_system_calls"]) / n,
			Staged: float64(grown[1]["nic_unexpected"]) / n,
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// recoveries measures round trips of which frames are lost beside others of which none is.
func recoveries(ctx context.Context, o NetstarOptions, out func(NetstarRow) error) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	for _, link := range []string{LinkUDP} { // shared memory loses nothing, and repeats nothing
		clean, err := o.tripsWithLoss(ctx, link, nil)
		if err != nil {
			return err
		}
		lossy, err := o.tripsWithLoss(ctx, link, &weft.Faults{Loss: o.Loss})
		if err != nil {
			return err
		}
		r := lossy.Recovery
		r.Loss, r.CleanP50 = o.Loss, clean.P50
		if r.Again > 0 {
			middle := 100 * (1 - min(float64(r.Again)/float64(r.RoundTrips), 1)/2) // the longest are those of which a frame was lost
			r.Delay, r.CleanDelay = lossy.times.ValueAtQuantile(middle)-clean.P50, clean.times.ValueAtQuantile(middle)-clean.P50
		}
		if err := out(NetstarRow{Link: link, Deployment: DeployedEmbedded, Size: callSize, Recovery: &r}); err != nil {
			return err
		}
	}
	return nil
}

// trips are round trips, each of which is in times.
type trips struct {
	Recovery
	times *hdrhistogram.Histogram
}

func (o *NetstarOptions) tripsWithLoss(ctx context.Context, link string, faults *weft.Faults) (t trips, err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	p, err := down.localPair(ctx, link, faults)
	if err != nil {
		return t, err
	}
	grown, err := p.count(func() error {
		t.times, err = p.client.roundTrips(ctx, callSize, max(o.Time, 10*time.Millisecond))
		return err
	})
	if err != nil {
		return t, err
	}
	l := latencyOf(t.times)
	t.RoundTrips, t.P50, t.P99, t.P999 = t.times.TotalCount(), l.P50, l.P99, l.P999
	for _, g := range grown {
		t.ByTimer += g["rel_resends_timeout"]
		t.ByTail += g["rel_resends_tail"]
		t.ByAck += g["rel_resends_fast"]
	}
	t.Again = t.ByTimer + t.ByTail + t.ByAck
	return t, nil
}
