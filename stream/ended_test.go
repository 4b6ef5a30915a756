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

// A closed peer does not know the stream any more, and answers so to each question and each
// message. Nevertheless the stream has ended in order: its bytes can be read to the end, however
// late, and Writes fail with EPIPE.
func TestAStreamIsReadToItsEndLongAfterItsPeerWasClosed(t *testing.T) {
	const answer = "that was all"
	for name, late := range map[string]struct {
		end   func(c *stream.Conn) error
		then  func(p *sim.Process) // runs in the peer's process afterwards
		wants error                // error of a Write after all that
	}{
		"closed":                     {(*stream.Conn).Close, func(p *sim.Process) { sleep(p, time.Hour) }, syscall.EPIPE},
		"closed with its process":    {(*stream.Conn).Close, func(*sim.Process) {}, syscall.EPIPE},
		"ended, and then aborted":    {(*stream.Conn).CloseWrite, nil, syscall.ECONNRESET},
		"ended, and aborted at once": {func(c *stream.Conn) error { err := c.CloseWrite(); c.Abort(); return err }, func(p *sim.Process) { sleep(p, time.Hour) }, syscall.ECONNRESET},
		"ended, and gone since then": {(*stream.Conn).CloseWrite, func(*sim.Process) {}, syscall.ECONNRESET},
	} {
		f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 2})
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
			if _, err := c.Write([]byte(answer)); err != nil {
				return err
			}
			if err := late.end(c); err != nil {
				return err
			}
			sleep(p, time.Second)
			if late.then == nil {
				c.Abort()
				sleep(p, time.Hour)
			}
			late.then(p)
			return nil
		})
		f.Process(1, "b/0", func(p *sim.Process) error {
			c, err := stream.Dial(context.Background(), p.Weft(), "a/0:x")
			if err != nil {
				return err
			}
			sleep(p, 10*stream.DefaultKeepAlive)
			got, err := io.ReadAll(c)
			if string(got) != answer || err != nil {
				return fmt.Errorf("%q was read, %w; expected %q and its end", got, err, answer)
			}
			if _, err := c.Write([]byte("x")); !errors.Is(err, late.wants) {
				return fmt.Errorf("a Write: %w; expected %w", err, late.wants)
			}
			if err := c.CloseWrite(); (err == nil) != (late.wants == syscall.EPIPE) {
				return fmt.Errorf("a CloseWrite behind %w: %w; expected none alone if the peer was closed in order", late.wants, err)
			}
			return nil
		})
		if err := f.Run(time.Hour); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
