package pagepeer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weftnet/weft/bench/peers/internal/contest"
	"github.com/weftnet/weft/internal/load"
)

// measure does one job, after a warm-up of a tenth of its time.
func (p *Peer) measure(ctx context.Context, s store, j contest.Job) (contest.Sample, error) {
	sample := contest.Sample{Measure: j.Measure, Size: j.Size}
	run, err := p.work(ctx, s, j.Measure)
	if err != nil {
		return sample, err
	}
	if _, err := run(ctx, j.Time/10, new(contest.Histogram)); err != nil {
		return sample, err
	}
	var h contest.Histogram
	begin := time.Now()
	n, err := run(ctx, j.Time, &h)
	took := time.Since(begin)
	switch j.Measure {
	case contest.Latency:
		sample.Steps = h.Steps()
		sample.Value = sample.Steps.At(50)
	case contest.Reads:
		sample.Value = float64(n) / took.Seconds()
	case contest.Bandwidth:
		sample.Value = float64(n) * float64(j.Size) / took.Seconds()
	}
	return sample, err
}

// work reads pages for the time d, and returns how many it has read. If it times them, it adds
// the durations to h.
type work func(ctx context.Context, d time.Duration, h *contest.Histogram) (int64, error)

// work returns the work of a measure. Its connections are made before it runs.
func (p *Peer) work(ctx context.Context, s store, measure string) (work, error) {
	switch measure {
	case contest.Latency:
		r, err := s.reader(ctx)
		return timed(r, random(0)), err
	case contest.Reads:
		if p.pipelines {
			r, err := s.reader(ctx)
			if err != nil {
				return nil, err
			}
			return pipelined(r.(pipeline)), nil
		}
		if m, ok := s.(manyAtOnce); ok {
			return atOnce(m), nil
		}
		return concurrent(ctx, s)
	case contest.Bandwidth:
		ahead, ok := s.(inOrder)
		if !ok {
			break
		}
		r, err := ahead.sequence(ctx)
		next := uint64(0)
		return timed(r, func() uint64 { next++; return (next - 1) % pages }), err
	}
	return nil, fmt.Errorf("%s cannot do that", p.Name)
}

// random returns a function that draws numbers of pages from a seed.
func random(seed int) func() uint64 {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	return func() uint64 { return r.Uint64N(pages) }
}

// timed reads pages one at a time. It reads the clock once for each.
func timed(r reader, next func() uint64) work {
	page := make([]byte, pageBytes)
	return func(ctx context.Context, d time.Duration, h *contest.Histogram) (n int64, err error) {
		begin := time.Now()
		for last := time.Duration(0); last < d; n++ {
			number := next()
			if err := r.get(ctx, number, page); err != nil {
				return n, err
			}
			if err := check(page, number); err != nil {
				return n, err
			}
			now := time.Since(begin)
			h.Add(int64(now - last))
			last = now
		}
		return n, nil
	}
}

// concurrent makes contest.ReadDepth readers, each with one read in flight.
func concurrent(ctx context.Context, s store) (work, error) {
	all := make([]work, contest.ReadDepth)
	for i := range all {
		r, err := s.reader(ctx)
		if err != nil {
			return nil, err
		}
		all[i] = timed(r, random(i))
	}
	return func(ctx context.Context, d time.Duration, _ *contest.Histogram) (int64, error) {
		var read atomic.Int64
		err := load.Together(ctx, len(all), func(ctx context.Context, i int) error {
			n, err := all[i](ctx, d, new(contest.Histogram))
			read.Add(n)
			return err
		})
		return read.Load(), err
	}, nil
}

// atOnce keeps contest.ReadDepth reads in flight in one call.
func atOnce(s manyAtOnce) work {
	next := random(0)
	free := make([][]byte, contest.ReadDepth)
	for i := range free {
		free[i] = make([]byte, pageBytes)
	}
	return func(ctx context.Context, d time.Duration, _ *contest.Histogram) (n int64, err error) {
		begin := time.Now()
		failed := s.getMany(ctx, contest.ReadDepth, func() (uint64, []byte, bool) {
			if err != nil || time.Since(begin) >= d {
				return 0, nil, false
			}
			page := free[len(free)-1]
			free = free[:len(free)-1]
			return next(), page, true
		}, func(number uint64, page []byte, failed error) {
			if failed == nil {
				failed = check(page, number)
			}
			if free = append(free, page); err == nil {
				err = failed
			}
			n++
		})
		return n, errors.Join(err, failed)
	}
}

// pipelined keeps contest.ReadDepth reads in flight on one connection. When no more answers are
// buffered, it sends as many requests as were answered. So requests leave together if answers
// come together.
func pipelined(r pipeline) work {
	next := random(0)
	page := make([]byte, pageBytes)
	return func(_ context.Context, d time.Duration, _ *contest.Histogram) (n int64, err error) {
		var asked []uint64 // numbers of pages, the oldest first
		begin := time.Now()
		for more := true; more || len(asked) > 0; more = more && time.Since(begin) < d {
			for more && len(asked) < contest.ReadDepth {
				number := next()
				asked = append(asked, number)
				r.ask(number)
			}
			if err := r.flush(); err != nil {
				return n, err
			}
			for first := true; len(asked) > 0 && (first || r.here()); first = false {
				if err := r.take(page); err != nil {
					return n, err
				}
				if err := check(page, asked[0]); err != nil {
					return n, err
				}
				asked = asked[1:]
				n++
			}
		}
		return n, nil
	}
}
