package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// A stream over a bad network is closed while the maximum number of messages in flight fills its
// peer's room, and more messages wait. All bytes arrive when the peer reads.
func TestWhatAClosedStreamHasUnderWayAndBehindItComesWhole(t *testing.T) {
	for seed := range uint64(seeds(t, 24)) {
		f := sim.New(sim.Config{Seed: sim.Seed(seed + 1), NICs: 2, Faults: sim.Faults{Loss: 0.1}})
		var want, got []byte
		f.Serve(0, "a/0", func(p *sim.Process) error {
			l, err := stream.Listen(p.Weft(), "x")
			if err != nil {
				return err
			}
			c, err := l.Accept()
			if err != nil {
				return err
			}
			_ = c.(*stream.Conn).SetReadBuffer(16 << 10)
			got, err = io.ReadAll(c)
			return err
		})
		f.Process(1, "b/0", func(p *sim.Process) error {
			c, err := stream.Dial(context.Background(), p.Weft(), "a/0:x")
			if err != nil {
				return err
			}
			write := func(n int) {
				b := bytes.Repeat([]byte{byte(len(want) >> 8)}, n)
				want = append(want, b...)
				_, _ = c.Write(b)
			}
			const under = 8
			write(1<<20 - under*3000)
			sleep(p, 300*time.Millisecond)
			heal := f.Partition(0)
			f.After(20*time.Millisecond, heal)
			for range under {
				write(3000)
			}
			for range 5 {
				write(12_000)
			}
			if err := c.Close(); err != nil {
				return err
			}
			sleep(p, 3*time.Second)
			return nil
		})
		err := f.Run(time.Minute)
		if err == nil && !bytes.Equal(got, want) {
			err = fmt.Errorf("%d bytes came of %d, and the first that differs is %d", len(got), len(want), differ(got, want))
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
