package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/driver"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
)

// KindPoll is the measurement of one poll of the engine.
const KindPoll = "poll"

// PollOptions say how long to measure with how many idle processes.
type PollOptions struct {
	Processes []int
	Time      time.Duration // for each of them
}

// PollRow is one measurement. The time is the median of the means of batches.
type PollRow struct {
	Bench      string  `json:"bench"`
	Sealed     bool    `json:"sealed"`    // the links between NICs
	Processes  int     `json:"processes"` // idle, all of them
	Iterations int64   `json:"iterations"`
	Poll       float64 `json:"poll_ns"`
}

// pollBatch is how many polls are timed together: reading the clock costs as much as a poll.
const pollBatch = 256

// RunPoll measures polls of an engine with idle processes, on a link that brings nothing. The
// rest is the fixed cost of a poll.
func RunPoll(ctx context.Context, o PollOptions, out func(PollRow) error) error {
	for _, n := range o.Processes {
		b, err := newPollBench(ctx, n)
		if err != nil {
			return fmt.Errorf("bench: %d idle processes: %w", n, err)
		}
		r, err := b.measure(ctx, n, o.Time)
		if err != nil {
			return err
		}
		if err := out(r); err != nil {
			return err
		}
	}
	return nil
}

// pollBench is an engine with its processes. Only the bench polls it.
type pollBench struct {
	engine *nic.Engine
	begin  time.Time
}

func newPollBench(ctx context.Context, processes int) (*pollBench, error) {
	e, err := nic.New(nic.Config{ID: 1, Incarnation: 1, Secrets: secret.Seeded(1),
		Link: mem.NewSwitch(mem.Config{}).Port(), MaxProcesses: processes})
	if err != nil {
		return nil, err
	}
	b := &pollBench{e, time.Now()}
	reg := driver.NewRegistrar(e.Driver(), b)
	for i := range processes {
		name, err := vni.MakeName("weft-poll", uint32(i))
		if err != nil {
			return nil, err
		}
		g := vni.DefaultGeometry(true)
		rw, ro := g.Sizes()
		// of a process that never does anything
		seg, err := vni.NewSegment(vni.AlignedBytes(rw), vni.AlignedBytes(ro), g)
		if err != nil {
			return nil, err
		}
		slot, err := reg.Take(1)
		if err != nil {
			return nil, err
		}
		if _, err := reg.New(ctx, slot, 1, name, driver.Entry{VNI: seg}); err != nil {
			return nil, err
		}
	}
	return b, b.Wait(ctx, func() bool { return !e.Listening() })
}

func (b *pollBench) now() clock.Time { return clock.Time(time.Since(b.begin)) }

// Wait implements driver.Waiter.
func (b *pollBench) Wait(ctx context.Context, ready func() bool) error {
	for !ready() {
		if err := ctx.Err(); err != nil {
			return err
		}
		b.engine.Poll(b.now())
	}
	return nil
}

// Kick and Wake implement driver.Waiter.
func (b *pollBench) Kick() {}
func (b *pollBench) Wake() {}

func (b *pollBench) measure(ctx context.Context, processes int, d time.Duration) (PollRow, error) {
	r := PollRow{Bench: KindPoll, Processes: processes}
	// Tenths of nanoseconds: the mean of a batch is finer than the clock.
	h := hdrhistogram.New(1, int64(10*time.Second), 3)
	for begin, last := b.now(), b.now(); last.Sub(begin) < d+warmUp(d); {
		for range pollBatch {
			b.engine.Poll(last)
		}
		now := b.now()
		if now.Sub(begin) > warmUp(d) {
			_ = h.RecordValue(int64(min(10*now.Sub(last)/pollBatch, 10*time.Second)))
			r.Iterations += pollBatch
		}
		last = now
		if err := ctx.Err(); err != nil {
			return r, context.Cause(ctx)
		}
	}
	r.Poll = float64(h.ValueAtQuantile(50)) / 10
	return r, nil
}
