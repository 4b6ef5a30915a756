package stream_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// network says how connections are made.
type network struct {
	listen func(address string) (net.Listener, error) // "": the listener chooses its address
	dial   func(ctx context.Context, address string) (net.Conn, error)
}

// A listener and a dial of its address must return the same over streams as over TCP.
func TestListenersReturnWhatThoseOfTCPReturn(t *testing.T) {
	a, b := pair(t, weft.Config{Link: weft.UDP("127.0.0.1:0")})
	want := listens(t, network{
		func(address string) (net.Listener, error) {
			if address == "" {
				address = "127.0.0.1:0"
			}
			return net.Listen("tcp", address)
		},
		func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
	})
	got := listens(t, network{
		func(string) (net.Listener, error) { return stream.Listen(a, "x") },
		func(ctx context.Context, address string) (net.Conn, error) {
			return (&stream.Dialer{Process: b}).DialContext(ctx, "", address)
		},
	})
	if diff := firstDifference(got, want); diff != "" {
		t.Error(diff)
	}
}

// listens calls a listener and its clients in all orders that matter, and returns the outcomes.
func listens(t *testing.T, on network) (log []string) {
	t.Helper()
	say := func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	l, err := on.listen("")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr()
	dial := func(ctx context.Context) net.Conn {
		c, err := on.dial(ctx, at.String())
		if err != nil {
			t.Fatalf("%s: %v", at.Network(), err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	accept := func() net.Conn {
		c, err := l.Accept()
		if err != nil {
			t.Fatalf("%s: %v", at.Network(), err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = on.dial(ended, at.String())
	say("a dial that was cancelled before it began: %s", toListener(at, err))
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	_, err = on.dial(late, at.String())
	say("a dial whose deadline has passed: %s", toListener(at, err))

	c := dial(t.Context())
	_, _ = io.WriteString(c, "all of it")
	c.Close()
	said, err := io.ReadAll(accept())
	say("closed before it is accepted: %q, %v", said, err)

	c = dial(t.Context())
	abort(c)
	s := accept()
	n, err := s.Read(make([]byte, 1))
	say("aborted before it is accepted: %s", one(s, n, err))

	c = dial(t.Context())
	s = accept()
	waiting := []net.Conn{dial(t.Context()), dial(t.Context()), dial(t.Context())}
	_, _ = io.WriteString(waiting[1], "is not read")
	say("Close: %s", toListener(at, l.Close()))
	for _, c := range waiting {
		n, err := c.Read(make([]byte, 1))
		say("not accepted before Close: %s", one(c, n, err))
	}
	_, err = l.Accept()
	say("Accept behind Close: %s", toListener(at, err))
	say("Close again: %s", toListener(at, l.Close()))
	say("address behind Close: %v", l.Addr() == at)
	_, err = on.dial(t.Context(), at.String())
	say("a dial behind Close: %s", toListener(at, err))

	_, _ = io.WriteString(c, "goes on")
	c.Close()
	said, err = io.ReadAll(s)
	say("accepted before Close: %q, %v", said, err)

	if l, err = on.listen(at.String()); err != nil {
		t.Fatalf("%s, at the address of one that was closed: %v", at.Network(), err)
	}
	failed := make(chan error)
	for range 2 {
		go func() {
			_, err := l.Accept()
			failed <- err
		}()
	}
	defer dial(t.Context()).Close()
	say("one Accept of two: %v", <-failed)
	l.Close()
	say("Accept that waits for Close: %s", toListener(at, <-failed))
	return log
}

// toListener returns the shape of an error of a listener or a dial, which has no connection.
func toListener(at net.Addr, err error) string {
	of, ok := err.(*net.OpError)
	if !ok || of.Net != at.Network() {
		return fmt.Sprintf("%T: %s", err, words(err))
	}
	return fmt.Sprintf("%s, the listener's: %v", shape(nil, err), of.Addr != nil && of.Addr.String() == at.String())
}
