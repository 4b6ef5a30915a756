package bench

import (
	"context"
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// KindLoss is the measurement of what lost packets cost.
const KindLoss = "loss"

// LossOptions say what is lost, and what is sent meanwhile.
type LossOptions struct {
	Self       string // path of the weft binary
	Link       string
	Deployment string
	Loss       float64 // share of the packets, each way
	MTU        int     // of the cable, bytes
	Size       int     // of a message of the stream, bytes
	Time       time.Duration
	Rounds     int
	HDR        func(size int, h *hdrhistogram.Histogram) error // is told all round trips; nil is nobody
}

// LossRow is what came of it.
type LossRow struct {
	Bench      string  `json:"bench"`
	Link       string  `json:"link"`
	Deployment string  `json:"deployment"`
	Loss       float64 `json:"loss"`
	Lost       float64 `json:"lost"` // share of the packets that was lost indeed
	Size       int     `json:"size"` // of a message of the stream, bytes
	Goodput    float64 `json:"bytes_per_s"`
	Clean      float64 `json:"clean_bytes_per_s"` // without loss, beside it
	Ratio      float64 `json:"goodput_ratio"`     // of Goodput to Clean
	RoundTrips int64   `json:"round_trips"`       // of pingSize bytes, with loss
	Latency
}

// pingSize is how long the messages of the round trips are, in bytes.
const pingSize = 64

// RunLoss measures a stream with and without loss, and round trips with it, in turns. Both pairs have hosts of their own, which
// differ in nothing but the share that is lost: what a pair has learned from losses does not slow the one without.
func RunLoss(ctx context.Context, o LossOptions) (r LossRow, err error) {
	var down undo
	defer func() {
		err = errors.Join(err, down.all())
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	pair := func(loss float64) (*hostSide, error) {
		return down.onHosts(ctx, &Options{Kind: KindLatency, Link: o.Link, Deployment: o.Deployment, Self: o.Self, Loss: loss, Lossy: true, MTU: o.MTU})
	}
	clean, err := pair(0)
	if err != nil {
		return r, err
	}
	lossy, err := pair(o.Loss)
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
	r = LossRow{Bench: KindLoss, Link: o.Link, Deployment: o.Deployment, Loss: o.Loss, Size: o.Size, Goodput: medianOf(l.with, sample.bandwidth),
		Clean: medianOf(l.without, sample.bandwidth), RoundTrips: h.TotalCount(), Latency: latencyOf(h)}
	r.Ratio = r.Goodput / r.Clean
	if c, err := lossy.bed.Drops(); err == nil && c.Dropped+c.Passed > 0 {
		r.Lost = float64(c.Dropped) / float64(c.Dropped+c.Passed)
	}
	if o.HDR != nil {
		err = o.HDR(pingSize, h)
	}
	return r, err
}

// lossRun has the samples: of streams without loss and with it, and of round trips with it.
type lossRun struct{ without, with, trips []sample }

func (l *lossRun) round(ctx context.Context, o *LossOptions, clean, lossy *hostSide) error {
	for _, part := range []struct {
		side *hostSide
		kind string
		size int
		into *[]sample
	}{{clean, KindBandwidth, o.Size, &l.without}, {lossy, KindBandwidth, o.Size, &l.with}, {lossy, KindLatency, pingSize, &l.trips}} {
		s, err := part.side.sample(ctx, part.kind, part.size, o.Time/time.Duration(o.Rounds))
		if err != nil {
			return err
		}
		*part.into = append(*part.into, s)
	}
	return nil
}
