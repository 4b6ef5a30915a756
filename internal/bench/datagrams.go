package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

// Datagrams go one way, with a window of them in flight. The client counts those that left, and
// the server those that a receive took. The difference is lost, on the link or because no
// receive was posted.

// datagrams makes a sample of datagrams. Its time ends when the last one has left. Datagrams
// that are in flight then arrive within straggle.
func (c *Client) datagrams(ctx context.Context, size int, d time.Duration) (s sample, err error) {
	pl, data := plan{Size: size, Window: windowFor(size), Datagrams: true}, load.Written(size)
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
			return sample{}, fmt.Errorf("bench: %d datagrams have left, %d arrived at %v",
				left, done.Messages, c.server)
		}
		s = sample{Iterations: done.Messages, Rate: float64(done.Messages) / took.Seconds(),
			Lost: 1 - float64(done.Messages)/float64(max(left, 1))}
	}
	return s, nil
}

// pourDatagrams sends for the time d, and returns how many left. A datagram that finds too many
// waiting for the link has not left.
func (c *Client) pourDatagrams(ctx context.Context, pl plan, data []byte, d time.Duration) (left int64, err error) {
	ring := load.NewRing(pl.Window)
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

// straggle is how long a server waits for datagrams in flight when the client has sent its last
// one. Their order with the message that ends the plan is not fixed.
const straggle = 20 * time.Millisecond

// receives is the number of receives that a server keeps posted.
const receives = 48

// sinkDatagrams counts datagrams until the client says stop.
func (s *session) sinkDatagrams(ctx context.Context, asked weft.Message) error {
	ring := load.NewRing(receives)
	defer ring.Cancel(nil)
	region, bufs, err := memory(s.p, receives, s.roomBytes())
	if err != nil {
		return s.answer(ctx, asked, outcome{Error: err.Error()})
	}
	defer region.Close() // after the receives
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
				return // the measurement is over
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
	// before the client goes on: its next plan must not find these receives
	ring.Cancel(nil)
	return s.answer(context.WithoutCancel(ctx), said, outcome{Messages: s.count})
}

// untilStop tells the client to begin, and waits until the client says stop.
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
