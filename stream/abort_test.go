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

// A stream may be aborted in the middle of a Write, or closed there with bytes unread. Such a
// stream has not ended in order. The peer must learn of the failure before it learns of any end.
// Otherwise it would take a part of the bytes for all of them.
func TestAPeerReadsNoEndOfAStreamThatFailsInTheMiddleOfAWrite(t *testing.T) {
	for seed := range uint64(seeds(t, 40)) {
		f := sim.New(sim.Config{Seed: sim.Seed(seed), NICs: 2})
		f.Serve(0, "a/0", func(p *sim.Process) error {
			l, err := stream.Listen(p.Weft(), "x")
			if err != nil {
				return err
			}
			conn, err := l.Accept()
			if err != nil {
				return err
			}
			c := conn.(*stream.Conn)
			if _, err := c.Read(make([]byte, 1)); err != nil { // one of several bytes
				return err
			}
			p.Start("ends", func(p *sim.Process) error {
				sleep(p, time.Duration(p.Rand().IntN(int(5*time.Millisecond))))
				if seed%2 == 0 {
					c.Abort()
					return nil
				}
				return c.Close()
			})
			_, _ = c.Write(make([]byte, 16<<20))
			sleep(p, time.Minute)
			return nil
		})
		f.Process(1, "b/0", func(p *sim.Process) error {
			c, err := stream.Dial(context.Background(), p.Weft(), "a/0:x")
			if err != nil {
				return err
			}
			if _, err := c.Write([]byte("is not read")); err != nil {
				return err
			}
			if n, err := io.Copy(io.Discard, struct{ io.Reader }{c}); !errors.Is(err, syscall.ECONNRESET) {
				return fmt.Errorf("behind %d bytes: %w; expected a reset", n, err)
			}
			return nil
		})
		if err := f.Run(time.Hour); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
