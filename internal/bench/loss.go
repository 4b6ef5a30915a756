package bench

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weftnet/weft/internal/testbed"
)

// KindLoss is the measurement of what lost packets cost.
const KindLoss = "loss"

// LossOptions say what is lost, and what is sent meanwhile.
type LossOptions struct {
	Self string // path of the weft binary
	Sealing
	Link       string
	Deployment string
	Loss       float64 // share of the packets, each way
	MTU        int     // of the cable, bytes
	Size       int     // of a message of the stream, bytes
	Time       time.Duration
	Rounds     int
	// called with all round trips; may be nil
	HDR func(size int, h *hdrhistogram.Histogram) error
}

// LossRow holds the result.
type LossRow struct {
	Bench      string  `json:"bench"`
	Sealed     bool    `json:"sealed"` // the links between NICs
	Link       string  `json:"link"`
	Deployment string  `json:"deployment"`
	Loss       float64 `json:"loss"`
	Lost       float64 `json:"lost"` // share of the packets that was actually lost
	Size       int     `json:"size"` // of a message of the stream, bytes
	Goodput    float64 `json:"bytes_per_s"`
	Clean      float64 `json:"clean_bytes_per_s"` // without loss, measured in turns
	Ratio      float64 `json:"goodput_ratio"`     // with loss to without: the median of RoundRatios
	RoundTrips int64   `json:"round_trips"`       // of pingSize bytes, with loss
	Latency
	RoundRatios []float64 `json:"round_ratios"` // one per round
}

// pingSize is the length of the messages of the round trips, in bytes.
const pingSize = 64

// RunLoss measures a stream with and without loss, and round trips with loss, in turns. Both
// pairs have separate hosts, which differ only in the share that is lost: what one pair has
// learned from losses does not slow the other.
//
//	round               1                    2                    3
//	without loss  ─────                     ─────          ─────
//	with loss          ─────           ─────                    ─────
//	round trips             ─────                ─────               ─────
//
// A turn is short, since the machine is a tenth faster or slower in the next one. So the figure
// is not the ratio of the streams' medians, but the median of the rounds' ratios. Each is of two
// adjacent turns; the stream that is first in one round is second in the next.
func RunLoss(ctx context.Context, o LossOptions) (r LossRow, err error) {
	var down undo
	defer down.end(ctx, &err)
	pair := func(loss float64) (*crew, *testbed.Testbed, error) {
		return down.apart(ctx, &Options{Kind: KindLatency, Link: o.Link, Deployment: o.Deployment, Self: o.Self,
			Veth: true, Loss: loss, Lossy: true, Apart: true, MTU: o.MTU, Sealing: o.Sealing})
	}
	clean, _, err := pair(0)
	if err != nil {
		return r, err
	}
	lossy, bed, err := pair(o.Loss)
	if err != nil {
		return r, err
	}
	var l lossRun
	for range o.Rounds {
		if err := l.round(ctx, &o, clean, lossy); err != nil {
			return r, err
		}
	}
	h := merged(l.trips)
	r = LossRow{Bench: KindLoss, Sealed: o.Sealed, Link: o.Link, Deployment: o.Deployment, Loss: o.Loss, Size: o.Size,
		Goodput: medianOf(l.with, sample.bandwidth),
		Clean:   medianOf(l.without, sample.bandwidth), RoundTrips: h.TotalCount(), Latency: h.latency()}
	r.RoundRatios = l.ratios()
	r.Ratio = median(r.RoundRatios)
	if c, err := bed.Drops(); err == nil && c.Dropped+c.Passed > 0 {
		r.Lost = float64(c.Dropped) / float64(c.Dropped+c.Passed)
	}
	if o.HDR != nil {
		err = o.HDR(pingSize, h.Histogram)
	}
	return r, err
}

// lossRun holds the samples: of streams without loss and with it, and of round trips with it.
type lossRun struct{ without, with, trips []sample }

// ratios returns those of the streams, round by round.
func (l *lossRun) ratios() (each []float64) {
	for i := range l.with {
		each = append(each, l.with[i].Bandwidth/l.without[i].Bandwidth)
	}
	return each
}

// turn is one turn of a pair in a round.
type turn struct {
	side side
	kind string
	size int
	into *[]sample
}

func (l *lossRun) round(ctx context.Context, o *LossOptions, clean, lossy side) error {
	turns := []turn{{clean, KindBandwidth, o.Size, &l.without}, {lossy, KindBandwidth, o.Size, &l.with},
		{lossy, KindLatency, pingSize, &l.trips}}
	if len(l.trips)%2 == 1 {
		turns[0], turns[1] = turns[1], turns[0]
	}
	for _, part := range turns {
		s, err := part.side.sample(ctx, part.kind, part.size, o.Time/time.Duration(o.Rounds))
		if err != nil {
			return err
		}
		*part.into = append(*part.into, s)
	}
	return nil
}
