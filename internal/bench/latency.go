package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// Latency sends messages of size bytes for the time d, each after the echo of the one before. It
// returns the durations of the round trips, and their number.
func (c *Client) Latency(ctx context.Context, size int, d time.Duration) (Latency, int64, error) {
	h, err := c.roundTrips(ctx, size, d)
	if err != nil {
		return Latency{}, 0, err
	}
	return h.latency(), h.TotalCount(), nil
}

// roundTrips is Latency, with all durations in nanoseconds.
func (c *Client) roundTrips(ctx context.Context, size int, d time.Duration) (*times, error) {
	h := newHistogram()
	data, echo := load.Written(size), make([]byte, size)
	_, _, err := c.measure(ctx, plan{Echo: true, Size: size, Window: 1}, func(ctx context.Context) error {
		if err := c.bounce(ctx, data, echo, warmUp(d), nil); err != nil {
			return err
		}
		return c.bounce(ctx, data, echo, d, h)
	})
	if err != nil {
		return nil, fmt.Errorf("latency of %d bytes: %w", size, err)
	}
	return h, nil
}

// bounce makes round trips for the time d, at least one. It reads the clock once for each, when
// its message is in flight: a round trip lasts from there to the same point of the next one. It
// also records the duration there, so neither delays a message.
func (c *Client) bounce(ctx context.Context, data, echo []byte, d time.Duration, h *times) error {
	x := newExchange(c.p, c.server, c.at, tagData)
	defer x.cancel()
	var m weft.Message
	begin := time.Now()
	for last, n := time.Duration(0), 0; ; n++ {
		if err := x.send(ctx, data, echo); err != nil {
			return err
		}
		now := time.Since(begin)
		if n > 0 {
			h.note(now - last)
		}
		last = now
		if err := x.recv(ctx, echo, &m); err != nil {
			return err
		}
		if m.Full != len(data) {
			return wrongSize(m, len(data))
		}
		if now >= d {
			if n == 0 {
				h.note(time.Since(begin)) // there is no other
			}
			return nil
		}
	}
}

func wrongSize(m weft.Message, want int) error {
	return fmt.Errorf("bench: message from %v with tag %d has %d bytes instead of %d", m.From, m.Tag, m.Full, want)
}
