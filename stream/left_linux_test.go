package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
	"github.com/weftnet/weft/stream"
)

// A process often ends right after its last stream. The peer must still get the message about the
// end of the stream.
func TestAPeerIsToldOfAnEndBehindWhichTheProcessEnds(t *testing.T) {
	worlds := map[string]func() (a, b *weft.Process){"attached": func() (a, b *weft.Process) { return attached(t) }}
	for name, cfg := range fabrics {
		worlds[name] = func() (a, b *weft.Process) { return pair(t, cfg) }
	}
	for world, open := range worlds {
		for name, x := range map[string]struct {
			end   func(c *stream.Conn)
			wants error
		}{
			"Close":                   {func(c *stream.Conn) { c.Close() }, nil},
			"CloseWrite and Close":    {func(c *stream.Conn) { c.CloseWrite(); c.Close() }, nil},
			"Abort":                   {func(c *stream.Conn) { c.Abort() }, syscall.ECONNRESET},
			"Close with bytes unread": {func(c *stream.Conn) { c.Read(make([]byte, 1)); c.Close() }, syscall.ECONNRESET},
		} {
			a, b := open()
			l, err := stream.Listen(a, "x")
			if err != nil {
				t.Fatal(err)
			}
			c, s, err := joined(l, &stream.Dialer{Process: b})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write([]byte("some bytes")); err != nil {
				t.Fatal(err)
			}
			if x.wants == nil {
				if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
					t.Fatal(err)
				}
			}
			x.end(c.(*stream.Conn))
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			_ = s.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, struct{ io.Reader }{s}); !errors.Is(err, x.wants) {
				t.Errorf("%s, %s: the peer reads %v; expected %v", world, name, err, x.wants)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The same must hold for streams that wait for Accept.
func TestADialIsToldOfAListenerBehindWhichTheProcessEnds(t *testing.T) {
	a, b := pair(t, weft.Config{})
	l, err := stream.Listen(a, "x")
	if err != nil {
		t.Fatal(err)
	}
	var all []net.Conn
	for range 10 {
		c, err := (&stream.Dialer{Process: b, Timeout: time.Minute}).DialContext(context.Background(), "weft", "a/0:x")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if err := errors.Join(l.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a stream that waited to be accepted: %v; expected a reset", err)
		}
	}
}

// Closing many streams to a vanished host, one after the other, takes little longer than closing
// one. Most streams would wait behind the messages of others, and could gain nothing.
func TestManyStreamsToAHostThatHasVanishedAreClosedSoon(t *testing.T) {
	const many = 1000
	f := sim.New(sim.Config{Seed: sim.Seed(1), NICs: 2})
	f.Serve(0, "a/0", acceptAll)
	f.Process(1, "b/0", func(p *sim.Process) error {
		var all []*stream.Conn
		for range many {
			c, err := stream.Dial(context.Background(), p.Weft(), "a/0:x")
			if err != nil {
				return err
			}
			all = append(all, c)
		}
		sleep(p, time.Second)
		f.Partition(0)
		begin := p.Runtime().Now()
		for _, c := range all {
			_ = c.Close()
		}
		if took := p.Runtime().Now().Sub(begin); took > 5*time.Second {
			return fmt.Errorf("%d streams were closed within %v", many, took)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}
