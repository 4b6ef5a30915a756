package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// CloseWrite does not wait for a Write for which the peer has no room. That Write ends with
// EPIPE. The peer reads the bytes that the Write took, and then the end.
func TestCloseWriteEndsAWriteThatWaits(t *testing.T) {
	for seed := range uint64(seeds(t, 24)) {
		for _, size := range []int{1 << 10, 20 << 10, 8 << 20} {
			f := sim.New(sim.Config{Seed: sim.Seed(seed), NICs: 2, Faults: sim.Faults{Loss: 0.02}})
			wrote, read, began := 0, 0, false
			f.Serve(0, "a/0", func(p *sim.Process) error {
				l, err := stream.Listen(p.Weft(), "x")
				if err != nil {
					return err
				}
				c, err := l.Accept()
				if err != nil {
					return err
				}
				for !began { // the Write waits until this end reads
					sleep(p, time.Duration(1+p.Rand().IntN(10_000))*time.Microsecond)
				}
				_ = c.SetDeadline(p.Runtime().Now().Add(patient))
				got, err := io.ReadAll(c)
				read = len(got)
				return err
			})
			f.Process(1, "b/0", func(p *sim.Process) error {
				c, err := stream.Dial(context.Background(), p.Weft(), "a/0:x")
				if err != nil {
					return err
				}
				_ = c.SetDeadline(p.Runtime().Now().Add(patient))
				var failed error
				p.Start("writes", func(p *sim.Process) error {
					for failed == nil {
						var n int
						n, failed = c.Write(make([]byte, size))
						wrote += n
					}
					p.Runtime().Wake()
					return nil
				})
				sleep(p, time.Duration(p.Rand().IntN(int(20*time.Millisecond))))
				if err := c.CloseWrite(); err != nil {
					return err
				}
				began = true
				if err := p.Runtime().WaitUntil(context.Background(), func() bool { return failed != nil }); err != nil {
					return err
				}
				if !errors.Is(failed, syscall.EPIPE) {
					return fmt.Errorf("a Write that CloseWrite has ended: %w", failed)
				}
				sleep(p, 10*time.Second)
				return nil
			})
			err := f.Run(5 * time.Minute)
			if err == nil && read != wrote {
				err = fmt.Errorf("%d bytes were read, and %d written", read, wrote)
			}
			if err != nil {
				t.Fatalf("seed %d, Writes of %d bytes: %v", seed, size, err)
			}
		}
	}
}
