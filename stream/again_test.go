package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// A process that ends and starts again under the same name does not know the streams of its
// earlier life. Messages of the other end reach it by its name. The new process answers that it
// does not know the stream. The other end then fails as soon as it sends, even if KeepAlive is
// negative.
func TestAStreamFailsWhenWhatItSendsReachesALaterProcessOfThatName(t *testing.T) {
	const lives = 4
	for name, of := range map[string]struct {
		keepAlive time.Duration
		write     bool
		within    time.Duration
	}{
		"a Write":    {-1, true, time.Second},
		"a question": {10 * time.Second, false, 11 * time.Second},
	} {
		f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 3})
		serve := func(p *sim.Process) error {
			l, err := stream.Listen(p.Weft(), "x")
			if err != nil {
				return err
			}
			if _, err := l.Accept(); err != nil {
				return err
			}
			sleep(p, time.Second)
			return nil
		}
		f.Serve(0, "a/0", serve)
		f.Process(2, "b/0", func(p *sim.Process) error {
			for life := range lives {
				if _, err := p.Weft().WaitName(context.Background(), weft.Name{App: "a"}); err != nil {
					return err
				}
				c, err := (&stream.Dialer{Process: p.Weft(), KeepAlive: of.keepAlive}).Dial(context.Background(), "a/0:x")
				if err != nil {
					return err
				}
				sleep(p, 2*time.Second)
				f.Serve((life+1)/2%2, "a/0", serve) // on the same host, and on another
				if _, err := p.Weft().WaitName(context.Background(), weft.Name{App: "a"}); err != nil {
					return err
				}
				sleep(p, 100*time.Millisecond)
				begin := p.Runtime().Now()
				if of.write {
					_, _ = c.Write([]byte("x"))
				}
				_ = c.SetReadDeadline(p.Runtime().Now().Add(time.Minute))
				if _, err = io.ReadFull(c, make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) || p.Runtime().Now().Sub(begin) > of.within {
					return fmt.Errorf("life %d: %w, after %v; expected a reset", life, err, p.Runtime().Now().Sub(begin))
				}
			}
			return nil
		})
		if err := f.Run(time.Hour); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
