package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/weftnet/weft/internal/bench"
)

// measured lists the sizes of messages in the table, in bytes.
var measured = []int{64, 4 << 10, 64 << 10, 1 << 20}

// row is one line of the table.
type row struct {
	size     int
	p50, p99 time.Duration // times of a round trip
	stream   bench.Stream
	frames   frames // counts while this row was measured
}

// measure makes the first process measure messages to the second.
func (d *demo) measure(ctx context.Context, done *tally) (table []row, err error) {
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- bench.Serve(ctx, d.procs[1], bench.Setup{}) }()
	defer func() {
		stop()
		if e := <-served; err == nil {
			err = e
		}
	}()
	c := bench.NewClient(d.procs[0], name(1))
	for _, size := range measured {
		before := d.frames()
		l, _, err := c.Latency(ctx, size, d.Measure)
		if err != nil {
			return nil, err
		}
		s, err := c.Stream(ctx, size, d.Measure)
		if err != nil {
			return nil, err
		}
		table = append(table, row{size, time.Duration(l.P50), time.Duration(l.P99), s, d.frames().minus(before)})
		done.add(0, 1)
	}
	return table, nil
}

// table prints the figures.
func (s *screen) table(rows []row) {
	s.printf("\n  %s\n",
		s.dim(fmt.Sprintf("%8s   %21s   %27s", "", "──── round trip ─────", "──── one way, streamed ────")))
	s.printf("  %s\n", s.bold(fmt.Sprintf("%8s   %10s %10s   %14s %12s   %10s", "message", "median", "99 %",
		"messages/s", "bandwidth", "retransmit")))
	for _, r := range rows {
		s.printf("  %8s   %10s %10s   %14s %12s   %8.1f %%\n", size(r.size), micros(r.p50), micros(r.p99),
			count(uint64(r.stream.MessagesPerSecond())), rate(r.stream.BytesPerSecond()), r.frames.share())
	}
	s.printf("\n")
}

func micros(d time.Duration) string {
	us := float64(d) / float64(time.Microsecond)
	if us < 1000 {
		return fmt.Sprintf("%.0f µs", us)
	}
	return fmt.Sprintf("%.1f ms", us/1000)
}

func rate(bytesPerSecond float64) string {
	if bytesPerSecond < 1e9 {
		return fmt.Sprintf("%.0f MB/s", bytesPerSecond/1e6)
	}
	return fmt.Sprintf("%.2f GB/s", bytesPerSecond/1e9)
}
