package stream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// A host vanishes while this process still owes messages to its streams. This must not delay
// other hosts: dials from another host succeed while the NICs still wait for the vanished one.
func TestAHostThatVanishesHoldsUpNoDialFromAnother(t *testing.T) {
	const many, dials = 1000, 10
	for name, owed := range map[string]func(p *sim.Process, c *stream.Conn, i int){
		"ends": func(_ *sim.Process, c *stream.Conn, _ int) { _ = c.CloseWrite() },
		"bytes and ends": func(p *sim.Process, c *stream.Conn, i int) {
			// All dials together would take all operations that a process may have in flight.
			if i < 40 {
				p.Start("writes", func(*sim.Process) error { _, _ = c.Write(make([]byte, 600<<10)); return nil })
			}
			_ = c.CloseWrite()
		},
	} {
		f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 3})
		vanished, lost := false, false
		f.Serve(0, "a/0", func(p *sim.Process) error {
			l, err := stream.Listen(p.Weft(), "x")
			if err != nil {
				return err
			}
			var all []*stream.Conn
			for range many {
				c, err := l.Accept()
				if err != nil {
					return err
				}
				all = append(all, c.(*stream.Conn))
			}
			p.Start("owes", func(p *sim.Process) error {
				sleep(p, time.Second)
				f.Partition(1)
				vanished = true
				for i, c := range all {
					owed(p, c, i)
				}
				err := p.Weft().Peer(weft.Name{App: "b"}).SendDelivered(context.Background(), 1, []byte("x"))
				if lost = true; !errors.Is(err, weft.ErrUnreachable) {
					return fmt.Errorf("a send to a host that has vanished: %w", err)
				}
				return nil
			})
			for {
				if _, err := l.Accept(); err != nil {
					return err
				}
			}
		})
		f.Process(1, "b/0", func(p *sim.Process) error {
			for range many {
				if _, err := stream.Dial(context.Background(), p.Weft(), "a/0:x"); err != nil {
					return err
				}
			}
			sleep(p, time.Minute)
			return nil
		})
		f.Process(2, "c/0", func(p *sim.Process) error {
			for !vanished {
				sleep(p, 10*time.Millisecond)
			}
			sleep(p, 50*time.Millisecond)
			for i := range dials {
				c, err := stream.Dial(context.Background(), p.Weft(), "a/0:x")
				if err != nil {
					return err
				}
				if lost {
					return fmt.Errorf("%s: %d dials have waited until the NICs had lost each other", name, dials-i)
				}
				_ = c.Close()
			}
			return nil
		})
		if err := f.Run(5 * time.Minute); err != nil {
			t.Error(err)
		}
	}
}

// If the context of a Dial to a silent host ends, no send stays in flight. After any number of
// abandoned dials, a Dial to another host succeeds while the NICs still wait for the silent host.
func TestDialsToASilentHostThatWereGivenUpHoldUpNoOther(t *testing.T) {
	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 3})
	f.Serve(0, "a/0", acceptAll)
	f.Serve(1, "b/0", acceptAll)
	f.Process(2, "c/0", func(p *sim.Process) error {
		ctx := context.Background()
		for _, app := range []string{"a", "b"} {
			if _, err := p.Weft().WaitName(ctx, weft.Name{App: app}); err != nil {
				return err
			}
		}
		f.Partition(1)
		for i := range 2000 { // more than the sends of a process
			short, cancel := p.Runtime().WithTimeout(ctx, 10*time.Microsecond)
			_, err := stream.Dial(short, p.Weft(), "b/0:x")
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("dial %d to a silent host: %w; expected %w", i, err, context.DeadlineExceeded)
			}
		}
		lost := false
		p.Start("waits", func(p *sim.Process) error {
			err := p.Weft().Peer(weft.Name{App: "b"}).SendDelivered(ctx, 1, []byte("x"))
			if lost = true; !errors.Is(err, weft.ErrUnreachable) {
				return fmt.Errorf("a send to a silent host: %w", err)
			}
			return nil
		})
		if _, err := stream.Dial(ctx, p.Weft(), "a/0:x"); err != nil {
			return err
		}
		if lost {
			return errors.New("a dial has waited until the NICs had lost each other")
		}
		return nil
	})
	if err := f.Run(5 * time.Minute); err != nil {
		t.Error(err)
	}
}
