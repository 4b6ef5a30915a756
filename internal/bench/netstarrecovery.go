package bench

import (
	"context"
	"errors"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testbed"
)

// Recovery says what losses cost.
type Recovery struct {
	Loss       float64 `json:"loss"` // share of the frames, each way
	RoundTrips int64   `json:"round_trips"`
	CleanP50   int64   `json:"clean_p50_ns"` // without loss, measured in turns
	P50        int64   `json:"p50_ns"`
	P99        int64   `json:"p99_ns"`
	P999       int64   `json:"p999_ns"`
	Sent       uint64  `json:"retransmissions"` // of both sides
	Again              // of those, by their cause
	// the added time of the median round trip among those that lost a frame
	Delay int64 `json:"delay_p50_ns"`
	// the same for as many of the longest round trips without loss: the machine's share of Delay
	CleanDelay int64 `json:"clean_delay_p50_ns"`
}

// Again counts retransmissions by their cause. A kernel does not tell why TCP retransmits.
type Again struct {
	ByTimer uint64 `json:"by_timeout,omitempty"`
	ByTail  uint64 `json:"by_tail_probe,omitempty"`
	ByAck   uint64 `json:"by_acknowledgement,omitempty"`
	ByTCP   uint64 `json:"by_tcp,omitempty"`
}

func (a Again) sum() uint64 { return a.ByTimer + a.ByTail + a.ByAck + a.ByTCP }

func (a Again) plus(b Again) Again {
	return Again{a.ByTimer + b.ByTimer, a.ByTail + b.ByTail, a.ByAck + b.ByAck, a.ByTCP + b.ByTCP}
}

// since returns the growth from b to a.
func (a Again) since(b Again) Again {
	return Again{a.ByTimer - b.ByTimer, a.ByTail - b.ByTail, a.ByAck - b.ByAck, a.ByTCP - b.ByTCP}
}

// nicAgain returns the counts of a NIC; zero if n is nil, as for an attached process.
func nicAgain(n *weft.NIC) Again {
	if n == nil {
		return Again{}
	}
	c := n.Counters()
	return Again{ByTimer: c["rel_resends_timeout"], ByTail: c["rel_resends_tail"], ByAck: c["rel_resends_fast"]}
}

// Carriers of round trips with lost frames.
const (
	byMessages     = "messages"
	byMessagesHere = "messages, loopback"
	byTCP          = "TCP"
)

// trips holds round trips, and their retransmissions.
type trips struct {
	How   string
	Times *times
	Again Again
}

// kindRecovery is a question to clients on hosts: round trips of messages, and over TCP.
const kindRecovery = "recovery"

// recovery makes a sample of both, each for the time d.
func (c *Client) recovery(ctx context.Context, size int, d time.Duration) (s sample, err error) {
	messages, err := c.messageTrips(ctx, byMessages, size, d)
	if err != nil {
		return s, err
	}
	tcp, err := c.tcpTrips(ctx, size, d)
	return sample{Trips: []trips{messages, tcp}}, err
}

func (c *Client) messageTrips(ctx context.Context, how string, size int, d time.Duration) (t trips, err error) {
	t.How = how
	before := nicAgain(c.p.NIC())
	t.Times, err = c.roundTrips(ctx, size, d)
	t.Again = nicAgain(c.p.NIC()).since(before).plus(c.again)
	return t, err
}

func (c *Client) tcpTrips(ctx context.Context, size int, d time.Duration) (t trips, err error) {
	t.How = byTCP
	t.Times, t.Again, err = c.echoes(ctx, overTCP, size, d)
	return t, err
}

// recoveries measures round trips with lost frames, in comparison with round trips without loss.
// Messages go between two NICs of this program, which lose frames themselves. Messages and TCP
// go between two hosts, whose cable loses frames. The user must be permitted to make hosts.
func recoveries(ctx context.Context, o NetstarOptions, out func(NetstarRow) error) error {
	if err := o.recoveryHere(ctx, out); err != nil {
		return err
	}
	links := []string{LinkUDP}
	if o.Veth {
		links = append(links, LinkXDP)
	}
	for _, link := range links {
		err := o.recoveryOnHosts(ctx, link, out)
		if errors.Is(err, testbed.ErrUnavailable) {
			return out(NetstarRow{How: byTCP, Link: link, Missing: err.Error()})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recoveryHere measures over loopback. Shared memory loses nothing, and retransmits nothing.
func (o *NetstarOptions) recoveryHere(ctx context.Context, out func(NetstarRow) error) error {
	clean, err := o.tripsWithLoss(ctx, nil)
	if err != nil {
		return err
	}
	lossy, err := o.tripsWithLoss(ctx, &weft.Faults{Loss: o.Loss})
	if err != nil {
		return err
	}
	return out(o.recoveryRow(LinkUDP, clean, lossy))
}

func (o *NetstarOptions) tripsWithLoss(ctx context.Context, faults *weft.Faults) (t trips, err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	p, err := down.localPairOn(ctx, LinkUDP, o.Sealing, faults)
	if err != nil {
		return t, err
	}
	return p.client.messageTrips(ctx, byMessagesHere, callSize, o.tripTime())
}

// tripTime returns how long round trips are made: long enough that some lose a frame.
func (o *NetstarOptions) tripTime() time.Duration { return max(o.Time, 10*time.Millisecond) }

// recoveryOnHosts measures between two hosts, first without loss, then with it.
func (o *NetstarOptions) recoveryOnHosts(ctx context.Context, link string, out func(NetstarRow) error) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	s, bed, err := down.apart(ctx, &Options{Kind: KindLatency, Link: link, Deployment: DeployedEmbedded, Self: o.Self,
		Veth: true, Lossy: true, Sealing: o.Sealing})
	if err != nil {
		return err
	}
	clean, err := s.sample(ctx, kindRecovery, callSize, o.tripTime())
	if err == nil {
		err = bed.SetLoss(o.Loss)
	}
	if err != nil {
		return err
	}
	lossy, err := s.sample(ctx, kindRecovery, callSize, o.tripTime())
	if err == nil {
		err = bed.SetLoss(0) // so both sides end without waiting for each other
	}
	for i := 0; i < len(lossy.Trips) && err == nil; i++ {
		err = out(o.recoveryRow(link, clean.Trips[i], lossy.Trips[i]))
	}
	return err
}

// recoveryRow compares round trips with loss to those without.
func (o *NetstarOptions) recoveryRow(link string, clean, lossy trips) NetstarRow {
	l := lossy.Times.latency()
	r := &Recovery{Loss: o.Loss, RoundTrips: lossy.Times.TotalCount(), CleanP50: clean.Times.p50(), P50: l.P50,
		P99: l.P99, P999: l.P999,
		Sent: lossy.Again.sum(), Again: lossy.Again}
	// more is retransmitted than was lost, by TCP twice as much
	if r.Sent > 0 {
		// share of the round trips, which are two frames; these are the longest
		lost := 1 - (1-o.Loss)*(1-o.Loss)
		middle := 100 * (1 - lost/2)
		r.Delay, r.CleanDelay = lossy.Times.ValueAtQuantile(middle)-r.CleanP50,
			clean.Times.ValueAtQuantile(middle)-r.CleanP50
	}
	row := NetstarRow{How: lossy.How, Link: link, Size: callSize, Recovery: r}
	if lossy.How != byTCP {
		row.Deployment = DeployedEmbedded
	}
	return row
}
