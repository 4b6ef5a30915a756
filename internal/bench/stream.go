package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weftnet/weft/internal/load"
)

// Stream is the amount of data that has gone one way.
type Stream struct {
	Messages int64         // that have arrived
	Bytes    int64         // in them
	Time     time.Duration // from the first send until the server has reported the arrival of all
}

// MessagesPerSecond returns the rate.
func (s Stream) MessagesPerSecond() float64 { return float64(s.Messages) / s.Time.Seconds() }

// BytesPerSecond returns the bandwidth.
func (s Stream) BytesPerSecond() float64 { return float64(s.Bytes) / s.Time.Seconds() }

// Stream sends messages of size bytes for the time d, with a window of them in flight. Messages
// that are too long to go many at once are in a region, here and at the server.
func (c *Client) Stream(ctx context.Context, size int, d time.Duration) (s Stream, err error) {
	defer func() {
		if err != nil {
			s, err = Stream{}, fmt.Errorf("stream of %d bytes: %w", size, err)
		}
	}()
	pl, data := plan{Size: size, Window: windowFor(size)}, load.Written(size)
	if !manyFor(size) {
		region, buffers, failed := memory(c.p, 1, size)
		if failed != nil {
			return s, failed
		}
		defer func() {
			if failed := region.Close(); err == nil {
				err = failed
			}
		}()
		data = buffers[0]
	}
	if _, err := c.stream(ctx, pl, data, warmUp(d)); err != nil {
		return s, err
	}
	return c.stream(ctx, pl, data, d)
}

func (c *Client) stream(ctx context.Context, pl plan, data []byte, d time.Duration) (Stream, error) {
	var sent int64
	done, took, err := c.measure(ctx, pl, func(ctx context.Context) (err error) {
		pour := c.pour
		if manyFor(pl.Size) {
			pour = c.pourMany
		}
		sent, err = pour(ctx, pl, data, d)
		return err
	})
	if err == nil && done.Messages != sent {
		err = fmt.Errorf("bench: sent %d messages to %v, %d have arrived", sent, c.server, done.Messages)
	}
	return Stream{Messages: done.Messages, Bytes: done.Messages * int64(pl.Size), Time: took}, err
}

// pour sends for the time d, and returns how many messages it sent. All messages share one
// buffer, since it is not written.
func (c *Client) pour(ctx context.Context, pl plan, data []byte, d time.Duration) (sent int64, err error) {
	ring := load.NewRing(pl.Window)
	defer ring.Cancel(nil)
	for begin := time.Now(); ; {
		// Reading the clock costs as much as a short message. With a window of messages in
		// between, it costs next to nothing.
		for range pl.Window {
			if ring.Full() {
				if _, err := ring.Oldest(ctx); err != nil {
					return sent, err
				}
			}
			op := ring.Next()
			if err := ring.Add(op, c.p.Peer(c.server).StartSend(op, tagData, data)); err != nil {
				return sent, err
			}
			sent++
		}
		if time.Since(begin) >= d {
			return sent, ring.Finish(ctx)
		}
	}
}

// many is how many messages pourMany passes to one call: 18 frames of a common size, which leave
// by one system call.
const many = 256

// pourMany is pour for short messages.
func (c *Client) pourMany(ctx context.Context, pl plan, data []byte, d time.Duration) (sent int64, err error) {
	messages := slices.Repeat([][]byte{data}, many)
	for begin := time.Now(); ; {
		for range 16 { // between two clock readings
			n, err := c.p.Peer(c.server).SendMany(ctx, tagData, messages)
			if sent += int64(n); err != nil {
				return sent, err
			}
		}
		if time.Since(begin) >= d {
			return sent, nil
		}
	}
}
