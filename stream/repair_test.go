package stream_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// silence is longer than NICs wait for each other by default, so their session ends. It is
// shorter than the keepalive time, so no stream fails.
const silence = 5 * time.Second

// lostWithASession joins two processes by a stream. It runs act at one end while the NICs have
// lost each other and their session. It returns the error of wait, which runs at the other end.
func lostWithASession(t *testing.T, act, wait func(p *sim.Process, c *stream.Conn) error) (err error) {
	t.Helper()
	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 2})
	f.Serve(0, "a/0", func(p *sim.Process) error {
		l, err := stream.Listen(p.Weft(), "lossy")
		if err != nil {
			return err
		}
		c, err := l.Accept()
		if err != nil {
			return err
		}
		sleep(p, 2*time.Second)
		heal := f.Partition(0)
		f.After(silence, heal)
		sleep(p, time.Second)
		if err := act(p, c.(*stream.Conn)); err != nil {
			return err
		}
		sleep(p, 10*time.Minute)
		return nil
	})
	f.Process(1, "b/0", func(p *sim.Process) error {
		c, dialErr := stream.Dial(context.Background(), p.Weft(), "a/0:lossy")
		if dialErr != nil {
			return dialErr
		}
		_ = c.SetDeadline(p.Runtime().Now().Add(5 * time.Minute))
		err = wait(p, c)
		return nil
	})
	if err := f.Run(15 * time.Minute); err != nil {
		t.Fatal(err)
	}
	return err
}

// If the end of a direction is lost with a session of the NICs, it is reported again.
func TestAnEndThatIsLostWithASessionIsToldAgain(t *testing.T) {
	for name, act := range map[string]func(p *sim.Process, c *stream.Conn) error{
		"CloseWrite": func(_ *sim.Process, c *stream.Conn) error { return c.CloseWrite() },
		"CloseWrite, and the peer goes on writing": func(p *sim.Process, c *stream.Conn) error {
			p.Start("reads", func(*sim.Process) error { _, _ = io.Copy(io.Discard, c); return nil })
			return c.CloseWrite()
		},
	} {
		err := lostWithASession(t, act, func(p *sim.Process, c *stream.Conn) error {
			p.Start("writes", func(p *sim.Process) error {
				sleep(p, silence+5*time.Second)
				for range 20 {
					if _, err := c.Write(make([]byte, 300_000)); err != nil {
						return nil
					}
					sleep(p, time.Second)
				}
				return nil
			})
			_, err := c.Read(make([]byte, 1))
			return err
		})
		if err != io.EOF {
			t.Errorf("%s: the peer's Read ended with %v; expected the end", name, err)
		}
	}
}

// A Close whose messages are all lost leaves no stream behind at the other end.
func TestACloseThatIsLostWithASessionEndsTheStream(t *testing.T) {
	err := lostWithASession(t, func(_ *sim.Process, c *stream.Conn) error { return c.Close() },
		func(_ *sim.Process, c *stream.Conn) error { _, err := c.Read(make([]byte, 1)); return err })
	if err == nil || errors.Is(err, context.DeadlineExceeded) || isLate(err) {
		t.Errorf("the peer's Read ended with %v; expected it to be told of the end", err)
	}
}

// A reader may grant room while the session is lost. It must grant the room again in the next
// session, even if the reader itself sends all the time.
func TestRoomThatIsToldOfWhileASessionIsLostIsToldOfAgain(t *testing.T) {
	for _, talks := range []bool{false, true} {
		err := lostWithASession(t, func(p *sim.Process, c *stream.Conn) error {
			p.Start("reads", func(*sim.Process) error { _, _ = io.Copy(io.Discard, struct{ io.Reader }{c}); return nil })
			if talks {
				p.Start("writes", func(p *sim.Process) error {
					sleep(p, silence+5*time.Second)
					for range 120 {
						if _, err := c.Write([]byte("x")); err != nil {
							return nil
						}
						sleep(p, time.Second)
					}
					return nil
				})
			}
			return nil
		}, func(p *sim.Process, c *stream.Conn) error {
			p.Start("reads", func(*sim.Process) error { _, _ = io.Copy(io.Discard, struct{ io.Reader }{c}); return nil })
			_ = c.SetWriteDeadline(p.Runtime().Now().Add(2 * time.Minute))
			_, err := c.Write(make([]byte, 4<<20))
			return err
		})
		if err != nil {
			t.Errorf("the reader sends: %v: a Write of more than its room ended with %v", talks, err)
		}
	}
}

// isLate reports whether a deadline has passed.
func isLate(err error) bool {
	var late interface{ Timeout() bool }
	return errors.As(err, &late) && late.Timeout()
}
