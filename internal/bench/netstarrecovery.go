package bench

import (
	"context"
	"errors"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/testbed"
)

// Recovery is what losses have cost.
type Recovery struct {
	Loss       float64 `json:"loss"` // share of the frames, each way
	RoundTrips int64   `json:"round_trips"`
	CleanP50   int64   `json:"clean_p50_ns"` // without loss, beside it
	P50        int64   `json:"p50_ns"`
	P99        int64   `json:"p99_ns"`
	P999       int64   `json:"p999_ns"`
	Sent       uint64  `json:"retransmissions"` // of both sides
	Again              // of those, by their cause
	Delay      int64   `json:"delay_p50_ns"`       // of the round trips of which a frame was lost: how much longer the one in their middle took
	CleanDelay int64   `json:"clean_delay_p50_ns"` // as many of the longest without loss, likewise: what of that is the machine's
}

// Again is what was sent again, and why. A kernel does not say why TCP has.
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

// since is what has come to what was counted before.
func (a Again) since(b Again) Again {
	return Again{a.ByTimer - b.ByTimer, a.ByTail - b.ByTail, a.ByAck - b.ByAck, a.ByTCP - b.ByTCP}
}

// nicAgain is what a NIC has counted; nothing of none, as that of a process which is attached.
func nicAgain(n *weft.NIC) Again {
	if n == nil {
		return Again{}
	}
	c := n.Counters()
	return Again{ByTimer: c["rel_resends_timeout"], ByTail: c["rel_resends_tail"], ByAck: c["rel_resends_fast"]}
}

// What carries round trips of which frames are lost.
const (
	byMessages     = "messages"
	byMessagesHere = "messages, loopback"
	byTCP          = "TCP"
)

// trips are round trips, and what of them was sent again.
type trips struct {
	How   string
	Times *times
	Again Again
}

// kindRecovery is what clients on hosts are asked for: round trips of messages, and over TCP.
const kindRecovery = "recovery"

// recovery is a sample of them, each for the time d.
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

// recoveries measures round trips of which frames are lost beside others of which none is: of messages between two NICs of this program,
// which lose frames themselves, and of messages and TCP between two hosts, whose cable does. For the latter they must be allowed.
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

// recoveryHere measures them over loopback; shared memory loses nothing, and repeats nothing.
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

// tripTime is how long round trips are made: long enough for some to lose a frame.
func (o *NetstarOptions) tripTime() time.Duration { return max(o.Time, 10*time.Millisecond) }

// recoveryOnHosts measures them between two hosts, first without loss, then with it.
func (o *NetstarOptions) recoveryOnHosts(ctx context.Context, link string, out func(NetstarRow) error) (err error) {
	var down undo
	defer func() { err = errors.Join(err, down.all()) }()
	s, bed, err := down.apart(ctx, &Options{Kind: KindLatency, Link: link, Deployment: DeployedEmbedded, Self: o.Self, Veth: true, Lossy: true, Sealing: o.Sealing})
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
		err = bed.SetLoss(0) // so that both sides part without waiting for each other
	}
	for i := 0; i < len(lossy.Trips) && err == nil; i++ {
		err = out(o.recoveryRow(link, clean.Trips[i], lossy.Trips[i]))
	}
	return err
}

// recoveryRow sets round trips with loss beside those without.
func (o *NetstarOptions) recoveryRow(link string, clean, lossy trips) NetstarRow {
	l := lossy.Times.latency()
	r := &Recovery{Loss: o.Loss, RoundTrips: lossy.Times.TotalCount(), CleanP50: clean.Times.p50(), P50: l.P50, P99: l.P99, P999: l.P999,
		Sent: lossy.Again.sum(), Again: lossy.Again}
	if r.Sent > 0 { // what is sent again is more than what was lost, of TCP twice as much
		lost := 1 - (1-o.Loss)*(1-o.Loss) // of the round trips, which are two frames; they are the longest
		middle := 100 * (1 - lost/2)
		r.Delay, r.CleanDelay = lossy.Times.ValueAtQuantile(middle)-r.CleanP50, clean.Times.ValueAtQuantile(middle)-r.CleanP50
	}
	row := NetstarRow{How: lossy.How, Link: link, Size: callSize, Recovery: r}
	if lossy.How != byTCP {
		row.Deployment = DeployedEmbedded
	}
	return row
}
