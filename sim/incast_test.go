package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/sim"
)

// In this incast, fifteen NICs send 1 MiB messages to one NIC, each with two in flight. The
// receiving NIC's queue holds 208 KiB, and its host is busy for a millisecond now and then, so
// all bytes in flight wait in the queue. Meanwhile a sixteenth NIC exchanges messages of 64 bytes
// with the receiver (decision 8).
func TestAnIncastLosesNothingAndKeepsShortMessagesShort(t *testing.T) {
	const senders, size, lasting = 15, 1 << 20, 100 * time.Millisecond
	f := sim.New(simulated.Hooked(sim.Config{Seed: 1, NICs: senders + 2}, simulated.Hooks{Check: (*nic.Engine).Limits}))
	ctx := context.Background()
	for i := range 10 {
		f.After(time.Duration(5+10*i)*time.Millisecond, func() { f.Stall(0, time.Millisecond) })
	}
	sink, buf := weft.Name{App: "sink"}, make([]byte, size)
	f.Serve(0, "sink/0", func(p *sim.Process) error {
		for range 2 * senders {
			p.Start("take", func(p *sim.Process) error {
				for {
					if _, err := p.Recv(ctx, weft.AnyProcess, 1, buf); err != nil {
						return nil
					}
				}
			})
		}
		for short := make([]byte, 64); ; {
			m, err := p.Recv(ctx, weft.AnyProcess, 2, short)
			if err != nil {
				return nil
			}
			if err := p.Send(ctx, m.From, 2, short); err != nil {
				return err
			}
		}
	})
	sent := make([]float64, senders)
	for i := range senders {
		f.Process(i+1, fmt.Sprintf("s/%d", i), func(p *sim.Process) error {
			if _, err := p.WaitName(ctx, sink); err != nil {
				return err
			}
			rt, left := p.Runtime(), 2
			begin := rt.Now()
			for range 2 {
				p.Start("pour", func(p *sim.Process) error {
					for rt.Now().Sub(begin) < lasting {
						if err := p.Send(ctx, sink, 1, buf); err != nil {
							return err
						}
						if rt.Now().Sub(begin) < lasting {
							sent[i]++
						}
					}
					left--
					return nil
				})
			}
			for left > 0 {
				rt.Sleep(ctx, time.Millisecond)
			}
			return nil
		})
	}
	var slowest time.Duration
	trips := 0
	f.Process(senders+1, "short/0", func(p *sim.Process) error {
		if _, err := p.WaitName(ctx, sink); err != nil {
			return err
		}
		rt := p.Runtime()
		for begin, short := rt.Now(), make([]byte, 64); rt.Now().Sub(begin) < lasting; trips++ {
			before := rt.Now()
			if err := p.Send(ctx, sink, 2, short); err != nil {
				return err
			}
			if _, err := p.Recv(ctx, sink, 2, short); err != nil {
				return err
			}
			slowest = max(slowest, rt.Now().Sub(before))
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	if n := f.Counts().Overflowed; n > 0 {
		t.Errorf("%d frames found the receiver's queue full", n)
	}
	var sum, squares float64
	for _, n := range sent {
		sum += n
		squares += n * n
	}
	if jain := sum * sum / (senders * squares); jain < 0.98 {
		t.Errorf("the shares %v are not even: %.3f", sent, jain)
	}
	if slowest > 2*time.Millisecond || trips < 500 {
		t.Errorf("the slowest of %d short messages took %v there and back", trips, slowest)
	}
	t.Logf("%.0f messages, %d round trips of short ones, the slowest %v, %+v", sum, trips, slowest, f.Counts())
}
