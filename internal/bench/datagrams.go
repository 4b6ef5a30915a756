package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/inflight"
	"github.com/weftnet/weft/internal/payload"
)

// Datagrams go one way, a window of them at a time. What the client counts are those that left, and the server those that came to a receive:
// what lies between is lost, on the link or for want of a receive.

// datagrams is a sample of them. Its time ends when the last one has left: what is still on its way then comes within straggle.
func (c *Client) datagrams(ctx context.Context, size int, d time.Duration) (s sample, err error) {
	pl, data := plan{Size: size, Window: windowFor(size), Datagrams: true}, payload.Written(size)
	for _, d := range []time.Duration{warmUp(d), d} {
		var left int64
		var took time.Duration
		done, _, failed := c.measure(ctx, pl, func(ctx context.Context) (err error) {
			begin := time.Now()
			left, err = c.pourDatagrams(ctx, pl, data, d)
			took = time.Since(begin)
			return err
		})
		switch {
		case failed != nil:
			return sample{}, fmt.Errorf("datagrams of %d bytes: %w", size, failed)
		case done.Messages > left:
			return sample{}, fmt.Errorf("bench: %d datagrams have left, %d arrived at %v", left, done.Messages, c.server)
		}
		s = sample{Iterations: done.Messages, Rate: float64(done.Messages) / took.Seconds(), Lost: 1 - float64(done.Messages)/float64(max(left, 1))}
	}
	return s, nil
}

// pourDatagrams sends for the time d, and returns how many left. One that finds too many waiting for the link has not.
func (c *Client) pourDatagrams(ctx context.Context, pl plan, data []byte, d time.Duration) (left int64, err error) {
	ring := inflight.New(pl.Window)
	defer ring.Cancel(nil)
	take := func() error {
		_, err := ring.Oldest(ctx)
		switch {
		case errors.Is(err, weft.ErrNoMemory):
			ring.Skip()
		case err != nil:
			return err
		default:
			left++
		}
		return nil
	}
	for begin := time.Now(); time.Since(begin) < d; {
		for range pl.Window {
			if ring.Full() {
				if err := take(); err != nil {
					return left, err
				}
			}
			op := ring.Next()
			if err := ring.Add(op, c.p.PeerAt(c.at).StartSendDatagram(op, tagData, data)); err != nil {
				return left, err
			}
		}
	}
	for ring.Len() > 0 {
		if err := take(); err != nil {
			return left, err
		}
	}
	return left, nil
}

// straggle is how long a server waits for datagrams that are still on their way when the client has sent its last: they keep no order with
// the message that says so.
const straggle = 20 * time.Millisecond

// receives is how many datagrams a server can be sent before it looks.
const receives = 48

// sinkDatagrams counts datagrams until the client says stop.
func (s *session) sinkDatagrams(ctx context.Context, asked weft.Message) error {
	ring := inflight.New(receives)
	defer ring.Cancel(nil)
	region, bufs, err := memory(s.p, receives, s.roomBytes())
	if err != nil {
		return s.answer(ctx, asked, outcome{Error: err.Error()})
	}
	defer region.Close() // behind the receives
	post := func(i int64) error {
		op := ring.Next()
		return ring.Add(op, s.p.StartRecvDatagram(op, tagData, bufs[i%receives]))
	}
	for i := range int64(receives) {
		if err := post(i); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var end sync.WaitGroup
	var broken error
	end.Go(func() {
		for broken == nil {
			m, err := ring.Oldest(ctx)
			if err != nil {
				return // it is over
			}
			if broken = post(s.count); m.Full != s.plan.Size {
				broken = wrongSize(m, s.plan.Size)
			}
			s.count++
		}
	})
	said, err := s.untilStop(ctx, asked, outcome{})
	if err == nil {
		_ = sleep(ctx, straggle)
	}
	stop()
	end.Wait()
	if err = errors.Join(err, broken); err != nil {
		return err
	}
	ring.Cancel(nil) // before the client goes on: its next plan is not for these receives
	return s.answer(context.WithoutCancel(ctx), said, outcome{Messages: s.count})
}

// untilStop tells the client to begin, and waits until it says stop.
func (s *session) untilStop(ctx context.Context, asked weft.Message, ready outcome) (weft.Message, error) {
	var op weft.Op
	if err := s.p.StartRecv(&op, s.client, tagStop, make([]byte, answerBytes)); err != nil {
		return weft.Message{}, err
	}
	err := s.answer(ctx, asked, ready)
	if err == nil {
		var m weft.Message
		if m, err = op.Wait(ctx); err == nil {
			return m, nil
		}
	}
	op.Cancel()
	_, _ = op.Wait(context.Background()) // a cancelled operation ends
	return weft.Message{}, err
}
