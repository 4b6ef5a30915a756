package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/proxy"
)

// toEcho dials an echo for the host "echo" and port 7, and nothing else.
func toEcho(_ context.Context, host string, port uint16) (net.Conn, error) {
	if host != "echo" || port != 7 {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	a, b := net.Pipe()
	go func() { io.Copy(b, b); b.Close() }()
	return a, nil
}

// echoes connects to the echo by HTTP CONNECT and uses it.
func echoes(t *testing.T, address string) {
	t.Helper()
	c := dial(t, address)
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "CONNECT echo:7 HTTP/1.1\r\n\r\nhello"); err != nil {
		t.Fatal(err)
	}
	want := "HTTP/1.1 200 OK\r\n\r\nhello"
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("a client that asks reads %q, %v; want %q", got[:n], err, want)
	}
}

// until waits for a condition that soon holds unless something is broken.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// S7: a proxy limits thousands of idle clients, counts them, and still serves others.
func TestS7IdleClientsAreBoundedAndKeepNoneOut(t *testing.T) {
	const idle = 2000
	l := listen(t)
	p := &proxy.Proxy{Listener: l, Asks: true, Dial: proxy.Asked(toEcho)}
	run(t, p)
	carried := dial(t, l.Addr().String())
	if _, err := io.WriteString(carried, "CONNECT echo:7 HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "the first client is carried", func() bool { return len(p.Status().Connections) == 1 })
	for i := range idle {
		c := dial(t, l.Addr().String())
		if i%2 == 0 { // half of them send one byte
			_, _ = c.Write([]byte{5})
		}
		if i%500 == 0 {
			echoes(t, l.Addr().String())
		}
	}
	echoes(t, l.Addr().String())
	until(t, "all but the newest idle clients have given way", func() bool {
		c := p.Counts()
		return c.Accepted >= idle && c.Open <= limits.Newcomers+1 && c.GaveWay >= idle-limits.Newcomers
	})
	if _, err := carried.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	answer := make([]byte, len("HTTP/1.1 200 OK\r\n\r\nx"))
	if _, err := io.ReadFull(carried, answer); err != nil || answer[len(answer)-1] != 'x' {
		t.Errorf("the client that was carried before reads %q, %v", answer, err)
	}
}

// The deadline of a request also ends a client that keeps sending.
func TestARequestEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, from := net.Pipe()
		defer client.Close()
		ended := make(chan error, 1)
		go func() { _, err := proxy.Asked(toEcho)(t.Context(), from); ended <- err }()
		start := time.Now()
		silent := make(chan struct{})
		go func() {
			defer close(silent)
			for {
				if _, err := client.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		err := <-ended
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != limits.HandshakeWithin {
			t.Errorf("a request without an end ended after %v with %v; want %v", took, err, limits.HandshakeWithin)
		}
		from.Close()
		<-silent
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	l := listen(t)
	p := &proxy.Proxy{Listener: l, Asks: true, Connections: 2, Dial: proxy.Asked(toEcho)}
	run(t, p)
	var held []*net.TCPConn
	for i := range 2 {
		c := dial(t, l.Addr().String())
		held = append(held, c)
		if _, err := io.WriteString(c, "CONNECT echo:7 HTTP/1.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		until(t, "the client is carried", func() bool { return len(p.Status().Connections) == i+1 })
	}
	for _, one := range []struct{ says, want string }{
		{"CONNECT echo:7 HTTP/1.1\r\n\r\n", "HTTP/1.1 503 Service Unavailable\r\n"},
		{"\x05\x01\x00\x05\x01\x00\x03\x04echo\x00\x07", "\x05\x00\x05\x01\x00\x01"},
	} {
		c := dial(t, l.Addr().String())
		if _, err := io.WriteString(c, one.says); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), one.want) {
			t.Errorf("a client for which there is no room reads %q, %v; want %q", got, err, one.want)
		}
	}
	if c := p.Counts(); c.Full != 2 || c.Refused != 0 {
		t.Errorf("the proxy counts %+v; want 2 for which there was no room", c)
	}
	held[0].Close()
	until(t, "a connection has ended", func() bool { return len(p.Status().Connections) == 1 })
	until(t, "its room is free", func() bool {
		c := dial(t, l.Addr().String())
		defer c.Close()
		_, _ = io.WriteString(c, "CONNECT echo:7 HTTP/1.1\r\n\r\n")
		b := make([]byte, 12)
		_, _ = io.ReadFull(c, b)
		return string(b) == "HTTP/1.1 200"
	})
}

// Without requests there are no newcomers: only Connections counts.
func TestConnectionsOfAProxyThatAsksNothingAreBounded(t *testing.T) {
	l := listen(t)
	p := &proxy.Proxy{Listener: l, Connections: 1, Dial: func(ctx context.Context, _ net.Conn) (net.Conn, error) { return toEcho(ctx, "echo", 7) }}
	run(t, p)
	first := dial(t, l.Addr().String())
	until(t, "the first client is carried", func() bool { return len(p.Status().Connections) == 1 })
	second, err := net.Dial("tcp", l.Addr().String())
	if err == nil { // otherwise the reset came before Dial returned
		defer second.Close()
		if n, err := second.Read(make([]byte, 1)); err == nil {
			t.Errorf("a client for which there is no room reads %d bytes; want its end", n)
		}
	}
	if _, err := io.WriteString(first, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	until(t, "one client for which there was no room is counted", func() bool { return p.Counts().Full == 1 })
}
