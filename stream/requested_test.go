package stream_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// A Dial may start when an earlier Dial was requested. The listener must accept it after the
// earlier one, even over a network that loses and reorders frames.
func TestStreamsAreAcceptedInTheOrderInWhichTheyWereRequested(t *testing.T) {
	const many = 50
	for seed := range uint64(seeds(t, 16)) {
		f := sim.New(sim.Config{Seed: sim.Seed(seed), NICs: 2, Faults: sim.Faults{Loss: 0.05, Duplicate: 0.02, Reorder: 0.2}})
		left := many
		f.Process(0, "a/0", func(p *sim.Process) error {
			l, err := stream.Listen(p.Weft(), "x")
			if err != nil {
				return err
			}
			for want := range many {
				c, err := l.Accept()
				if err != nil {
					return err
				}
				var number [4]byte
				if _, err := io.ReadFull(c, number[:]); err != nil {
					return err
				}
				if got := binary.LittleEndian.Uint32(number[:]); got != uint32(want) {
					return fmt.Errorf("stream %d was accepted in place %d", got, want)
				}
			}
			return nil
		})
		f.Process(1, "b/0", func(p *sim.Process) error {
			if _, err := p.WaitName(context.Background(), weft.Name{App: "a"}); err != nil {
				return err
			}
			for i := range many {
				requested := false
				d := &stream.Dialer{Process: p.Weft(), Requested: func() { requested = true; p.Runtime().Wake() }}
				p.Start("dials", func(p *sim.Process) error {
					c, err := d.Dial(context.Background(), "a/0:x")
					if err != nil {
						return err
					}
					_, err = c.Write(binary.LittleEndian.AppendUint32(nil, uint32(i)))
					left--
					p.Runtime().Wake()
					return err
				})
				if err := p.Runtime().WaitUntil(context.Background(), func() bool { return requested }); err != nil {
					return err
				}
			}
			return p.Runtime().WaitUntil(context.Background(), func() bool { return left == 0 })
		})
		if err := f.Run(time.Hour); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
