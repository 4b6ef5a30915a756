// Package demo shows Weft to a new user: four NICs in one process, and all kinds of operations
// between them, over a network that loses frames. It does the work of `weft demo`.
//
//	demo/0 ── NIC ──┐         ┌── NIC ── demo/2
//	                ├── UDP ──┤                    each NIC drops some of the frames that arrive
//	demo/1 ── NIC ──┘         └── NIC ── demo/3
//
// Every received byte is compared with the sent byte: both follow from a seed.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weftnet/weft"
)

// hosts is the number of NICs.
const hosts = 4

// pairs is the number of directions between them.
const pairs = hosts * (hosts - 1)

// Options selects what the demo shows.
type Options struct {
	Out      io.Writer
	Terminal bool          // Out is a terminal: progress is drawn in place, in colour
	Loss     float64       // share of frames to drop, 0…1
	Seed     uint64        // for bytes, sizes and losses
	Messages int           // short messages in each direction, in addition to Sizes
	Sizes    []int         // bytes of the messages that all pairs exchange concurrently
	Long     int           // bytes of the message that every pair exchanges at the end
	Region   int           // bytes of each region for PUT and GET
	Measure  time.Duration // time for each figure of the table
	Within   time.Duration // time after which the demo gives up
}

// Default returns the options of `weft demo`.
func Default() Options {
	return Options{
		Loss:     0.02,
		Seed:     1,
		Messages: 500,
		Sizes: []int{0, 1, 63, 64, 65, 767, 768, 769, 1400, 4 << 10, 16 << 10, 16<<10 + 1, 64 << 10, 256 << 10,
			1 << 20},
		Long:    16 << 20,
		Region:  3 << 20,
		Measure: 400 * time.Millisecond,
		Within:  55 * time.Second,
	}
}

// demo is one run of the demo.
type demo struct {
	Options
	screen *screen
	procs  [hosts]*weft.Process
	forget func() error // removes the fabric key; nil if there is none
}

// Run runs the whole demo. The error is the first failure.
func Run(ctx context.Context, o Options) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Within, fmt.Errorf("not done after %v", o.Within))
	defer cancel()
	d := &demo{Options: o, screen: newScreen(o.Out, o.Terminal)}
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
	}()
	began := time.Now()
	d.screen.printf("%s: four NICs in this process, joined by UDP over loopback.\n"+
		"The links are sealed: every frame is encrypted and authenticated.\n"+
		"Of all the frames that come, %.3g %% are thrown away.\n\n",
		d.screen.bold("Weft"), 100*o.Loss)
	if err := d.open(ctx); err != nil {
		return errors.Join(fmt.Errorf("opening NICs: %w", err), d.close())
	}
	table, err := d.steps(ctx)
	if err != nil {
		return errors.Join(err, d.close())
	}
	frames := d.frames()
	if err := d.close(); err != nil {
		return fmt.Errorf("closing NICs: %w", err)
	}
	d.screen.table(table)
	d.screen.printf("  %s frames carried %s segments; %s were retransmitted (%.1f %%).\n", count(frames.out),
		count(frames.first), count(frames.again), frames.share())
	d.screen.printf("  %s after %.1f s: all came once and in order, and every byte is right.\n",
		d.screen.good("All is well"), time.Since(began).Seconds())
	return nil
}

// steps runs the steps one after the other.
func (d *demo) steps(ctx context.Context) ([]row, error) {
	d.screen.heading()
	for _, s := range []struct {
		name, what string
		total      int64
		do         func(ctx context.Context, done *tally) error
	}{
		{"names", "each finds the others by name", pairs, d.findNames},
		{"messages", fmt.Sprintf("%s to %s, all %d directions", size(0), size(d.Sizes[len(d.Sizes)-1]), pairs),
			d.messageBytes(), d.exchange},
		{"long ones", fmt.Sprintf("%s in every direction", size(d.Long)), pairs * int64(d.Long), d.exchangeLong},
		{"PUT and GET", "into and out of others' memory", d.remoteBytes(), d.remote},
	} {
		step := d.screen.begin(s.name, s.what, s.total)
		err := s.do(ctx, &step.tally)
		step.end(err)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	step := d.screen.begin("figures", "one NIC to another, losses included", int64(len(measured)))
	table, err := d.measure(ctx, &step.tally)
	step.end(err)
	if err != nil {
		return nil, fmt.Errorf("figures: %w", err)
	}
	return table, nil
}
