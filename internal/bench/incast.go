package bench

import (
	"context"
	"time"

	"github.com/weftnet/weft"
)

// Incast measures a NIC to which many others send long messages at once, and the short messages
// to it:
//
//	program 1: NICs 0 … n-1     ══ long messages, two of each in flight ══►  program 2: one NIC
//	this program: one more NIC  ◄─── 64-byte round trips, one by one ─────►
//
// Long and short messages go over UDP on loopback. Turns with and without the long messages
// alternate, so both see the same machine.

// KindIncast is the kind of this measurement.
const KindIncast = "incast"

// IncastOptions say how much is sent.
type IncastOptions struct {
	Senders int
	Size    int // bytes of a long message
	Time    time.Duration
	Self    string // path of the weft binary
	Sealing
}

// IncastRow holds the result.
type IncastRow struct {
	Bench   string  `json:"bench"`
	Sealed  bool    `json:"sealed"` // the links between NICs
	Senders int     `json:"senders"`
	Size    int     `json:"size"`  // bytes of a long message
	Drops   uint64  `json:"drops"` // frames for which sockets and links had no room
	Jain    float64 `json:"jain"`  // over the bytes of each sender
	Small   int64   `json:"small_p50_ns"`
	Small99 int64   `json:"small_p99_ns"`
	Alone   int64   `json:"alone_p50_ns"` // without the long messages
	Alone99 int64   `json:"alone_p99_ns"`
	Rate    float64 `json:"bytes_per_s"` // of long messages
}

// Applications of an incast: the senders, and the receiver of all messages.
const incastApp = "weft-incast"

var (
	incastTo       = crewTo{App: "weft-incast-receiver", Of: 1}
	incastReceiver = incastTo.of(0)
)

// tagShort is the tag of the short messages.
const tagShort weft.Tag = 201

// incastRounds is how many turns there are with and without long messages.
const incastRounds = 5

// shortBytes is the length of the short messages.
const shortBytes = 64

// incastWindow is how many long messages each sender has in flight.
const incastWindow = 2

// RunIncast sets everything up, and measures.
func RunIncast(ctx context.Context, o IncastOptions) (r IncastRow, err error) {
	var down undo
	defer down.end(ctx, &err)
	receiver, addr, err := down.startCrew(ctx, o.Self, KindIncast,
		crewPlan{Sealing: o.Sealing, App: incastTo.App, Count: 1, Size: o.Size, Takes: min(incastWindow*o.Senders, 48),
			Echo: &crewEcho{Tag: tagShort, Most: shortBytes}})
	if err != nil {
		return r, err
	}
	senders, _, err := down.startCrew(ctx, o.Self, KindIncast,
		crewPlan{Sealing: o.Sealing, Peer: addr, App: incastApp, Count: o.Senders, Size: o.Size, To: []crewTo{incastTo},
			Window: incastWindow})
	if err != nil {
		return r, err
	}
	p, _, err := down.open(ctx, place{deployment: DeployedEmbedded, name: ClientName, listen: "127.0.0.1:0",
		nodes: []weft.Node{{Addr: addr}}, sealing: o.Sealing})
	if err != nil {
		return r, err
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := p.WaitName(wait, incastReceiver); err != nil {
		return r, err
	}
	return o.measure(ctx, p, receiver, senders)
}

func (o *IncastOptions) measure(
	ctx context.Context, p *weft.Process, receiver, senders *crew,
) (r IncastRow, err error) {
	var sent, received crewReport
	alone, among := newHistogram(), newHistogram()
	phase := o.Time / (2 * incastRounds)
	if err := ping(ctx, p, warmUp(o.Time), nil); err != nil {
		return r, err
	}
	for range incastRounds {
		if err := ping(ctx, p, phase, alone); err != nil {
			return r, err
		}
		if err := senders.ask("go", &sent); err != nil {
			return r, err
		}
		if err := ping(ctx, p, phase, among); err != nil {
			return r, err
		}
		if err := senders.ask("stop", &sent); err != nil {
			return r, err
		}
	}
	if err := receiver.ask("report", &received); err != nil {
		return r, err
	}
	r = IncastRow{Bench: KindIncast, Sealed: o.Sealed, Senders: o.Senders, Size: o.Size,
		Drops: sent.Drops + received.Drops,
		Small: among.p50(), Small99: among.ValueAtQuantile(99), Alone: alone.p50(), Alone99: alone.ValueAtQuantile(99)}
	var shares []float64
	for _, n := range sent.Bytes {
		shares = append(shares, float64(n))
		r.Rate += float64(n) / sent.Seconds
	}
	r.Jain = Jain(shares)
	return r, nil
}

// ping makes round trips of short messages, one by one, for the time d.
func ping(ctx context.Context, p *weft.Process, d time.Duration, h *times) error {
	buf := make([]byte, shortBytes)
	for begin, last := time.Now(), time.Duration(0); ; {
		if err := p.Send(ctx, incastReceiver, tagShort, buf); err != nil {
			return err
		}
		if _, err := p.Recv(ctx, incastReceiver, tagShort, buf); err != nil {
			return err
		}
		now := time.Since(begin)
		h.note(now - last)
		if last = now; now >= d {
			return nil
		}
	}
}
