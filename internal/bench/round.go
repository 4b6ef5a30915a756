package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/bench/limit"
)

// sample is one measurement of one size.
type sample struct {
	Far        *Setup // setup of the other side, if it tells
	Iterations int64
	Rate       float64 // messages per second
	Bandwidth  float64 // bytes per second
	Lost       float64 // share of the datagrams that left
	Times      *times
	Streams    *Streams
	Trips      []trips // of kindRecovery
}

func (s sample) rate() float64      { return s.Rate }
func (s sample) bandwidth() float64 { return s.Bandwidth }

// side makes measurements: it is a client in this process, or in another.
type side interface {
	sample(ctx context.Context, kind string, size int, d time.Duration) (sample, error)
}

func (c *Client) sample(ctx context.Context, kind string, size int, d time.Duration) (sample, error) {
	s, err := kindOf(kind).work(c, ctx, size, d)
	s.Far = c.far
	return s, err
}

// leastRound is the least time that each side has in a round: a shorter one would measure little
// but how the two sides begin.
const leastRound = 5 * time.Millisecond

// CheckRounds returns an error if d is too short for the number of rounds.
func CheckRounds(d time.Duration, rounds int) error {
	if least := time.Duration(rounds) * leastRound; d < least {
		return fmt.Errorf(
			"--time %v with --rounds %d: expected at least %v, or fewer rounds, since one has %v at least",
			d, rounds, least, leastRound)
	}
	return nil
}

// rounds makes the rows of a measurement.
//
//	round      1                    2                    3
//	plain  ────                 ────                 ────              if asked for
//	limit      ────                 ────                 ────          if asked for
//	sealed         ────                 ────                 ────      if asked for
//	limit              ────                 ────                 ────  if asked for
//
// If the machine slows down for a while, it slows all of them down. The figure of each is its
// median.
type rounds struct {
	o      *Options
	links  []*linked
	ground *limit.Ground
}

// linked is the measurement of plain links, or of sealed ones.
type linked struct {
	o       *Options
	side    side
	samples []sample // of one size
	limits  []limit.Result
}

// size measures a size and passes its rows to out.
func (r *rounds) size(ctx context.Context, size int, out func(Row) error) error {
	turns := 1
	if r.o.Against || r.o.BothLinks {
		turns = r.o.Rounds
	}
	for _, l := range r.links {
		l.samples, l.limits = nil, nil
	}
	for range turns {
		for _, l := range r.links {
			if err := r.turn(ctx, l, size, r.o.Time/time.Duration(turns)); err != nil {
				return err
			}
		}
	}
	for i, l := range r.links {
		row := l.row(size)
		row.inPair = r.o.BothLinks
		if i > 0 {
			row.BesidePlain = kindOf(r.o.Kind).besidePlain(l.samples, r.links[0].samples)
		}
		if err := out(row); err != nil {
			return err
		}
		if r.o.HDR != nil {
			if err := r.o.HDR(size, merged(l.samples).Histogram); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn measures one kind of links, and its limit.
func (r *rounds) turn(ctx context.Context, l *linked, size int, d time.Duration) error {
	s, err := l.side.sample(ctx, l.o.Kind, size, d)
	if err != nil {
		return err
	}
	l.samples = append(l.samples, s)
	if !l.o.Against {
		return nil
	}
	m, err := r.ground.Measure(ctx, kindOf(l.o.Kind).limit(l.o, size), size, d)
	l.limits = append(l.limits, m)
	return err
}

// row makes the row of a size.
func (l *linked) row(size int) Row {
	o, kind := l.o, kindOf(l.o.Kind)
	row := Row{Bench: o.Kind, Sealed: o.Sealed, Link: o.Link, Deployment: o.Deployment, Size: size}
	for _, s := range l.samples {
		row.Iterations += s.Iterations
	}
	if kind.fill(&row, l.samples); o.Host != "" && !o.Started {
		// the other side may be of a version that does not tell
		row.Far = cmp.Or(l.samples[0].Far, &Setup{"unknown", "unknown"})
	}
	if o.Against {
		row.Against = kind.against(kind.limit(o, size), l.samples, l.limits)
	}
	return row
}

// latencies returns the medians of percentiles.
func latencies(samples []sample) Latency {
	at := func(q float64) int64 {
		return medianOf(samples, func(s sample) int64 { return s.Times.ValueAtQuantile(q) })
	}
	return Latency{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9)}
}

// medianOf returns the median of a figure of all elements.
func medianOf[T any, N int64 | float64](all []T, figure func(T) N) N {
	vs := make([]N, len(all))
	for i, s := range all {
		vs[i] = figure(s)
	}
	return median(vs)
}

// median returns the median of the figures.
func median[N int64 | float64](of []N) N {
	vs := slices.Sorted(slices.Values(of))
	return (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2
}

// merged returns the round trips of all samples.
func merged(samples []sample) *times {
	h := newHistogram()
	for _, s := range samples {
		h.Merge(s.Times.Histogram)
	}
	return h
}

// against returns the comparison with a limit. The ratio is the median of the rounds' ratios,
// not the ratio of the medians. If the machine changes within a run, the two medians may come
// from different halves of it, while the two turns of a round mostly see the same machine.
func (k *Kind) against(name string, samples []sample, limits []limit.Result) *Against {
	figure := k.columns[0].of
	l := limit.Median(limits)
	only := l.Only(limit.Kind(k.Name))
	a := &Against{Limit: name, LimitP50: only.P50, LimitMessagesPerS: only.MessagesPerSec,
		LimitBytesPerS: only.BytesPerSec, shown: figure(asRow(l))}
	for i := range samples {
		var r Row
		k.fill(&r, samples[i:i+1])
		a.RoundRatios = append(a.RoundRatios, figure(&r)/figure(asRow(limits[i])))
	}
	a.Ratio = median(a.RoundRatios)
	return a
}

// asRow returns a row with the fields of a limit's result.
func asRow(l limit.Result) *Row {
	return &Row{Latency: &Latency{P50: l.P50}, Rate: &Rate{l.MessagesPerSec}, Bandwidth: &Bandwidth{l.BytesPerSec}}
}
