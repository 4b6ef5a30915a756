package proxy_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/internal/proxy"
)

// asking returns the proxy's answer to a client that sends text and then ends its direction. The
// proxy's clients reach only an echo at the host "echo" with port 7.
func asking(t *testing.T, text string) string {
	t.Helper()
	l := listen(t)
	run(t, &proxy.Proxy{Listener: l, Dial: proxy.Asked(func(_ context.Context, host string, port uint16) (net.Conn, error) {
		if host != "echo" || port != 7 {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		a, b := net.Pipe()
		go func() { io.Copy(b, b); b.Close() }()
		return a, nil
	})})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	one := make([]byte, 4096)
	for !strings.HasSuffix(said.String(), "bytes") { // the echo, or everything until the end
		n, err := c.Read(one)
		said.Write(one[:n])
		if err != nil {
			break
		}
	}
	return said.String()
}

func TestAClientSaysWhereItWantsToGo(t *testing.T) {
	const (
		hello   = "\x05\x02\x02\x00"
		granted = "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	)
	failed := func(code string) string { return "\x05\x00\x05" + code + granted[2:] }
	for _, c := range []struct{ what, says, want string }{
		{"SOCKS5 to a service", hello + "\x05\x01\x00\x03\x04echo\x00\x07bytes", "\x05\x00" + granted + "bytes"},
		{"SOCKS5 to none", hello + "\x05\x01\x00\x03\x04none\x00\x07", failed("\x05")},
		{"SOCKS5 to listen", hello + "\x05\x02\x00\x03\x04echo\x00\x07", failed("\x07")},
		{"SOCKS5 to an IP address", hello + "\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x07", failed("\x08")},
		{"SOCKS5 with a password", "\x05\x01\x02", "\x05\xff"},
		{"CONNECT to a service", "CONNECT echo:7 HTTP/1.1\r\nHost: echo:7\r\n\r\nbytes", "HTTP/1.1 200 OK\r\n\r\nbytes"},
		{"CONNECT to none", "CONNECT none:7 HTTP/1.1\r\n\r\n", "HTTP/1.1 502 Bad Gateway\r\n"},
		{"CONNECT by hand, whose lines end without a return", "CONNECT echo:7 HTTP/1.1\nHost: echo:7\n\nbytes", "HTTP/1.1 200 OK\r\n\r\nbytes"},
		{"a line without a return, and no more", "CONNECT none:7 HTTP/1.1\n\n", "HTTP/1.1 502 Bad Gateway\r\n"},
		{"GET", "GET http://echo:7/ HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n"},
		{"CONNECT without a port", "CONNECT echo HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
		{"CONNECT to no number", "CONNECT echo:http HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
		{"SOCKS4", "\x04\x01\x00\x07\x7f\x00\x00\x01\x00", "HTTP/1.1 400 Bad Request\r\n"},
		{"TLS", "\x16\x03\x01\x02\x00", "HTTP/1.1 400 Bad Request\r\n"},
		{"nonsense", "hello\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
		{"more than a request has", "CONNECT echo:7 HTTP/1.1\r\nX: " + strings.Repeat("x", 8<<10-28), "HTTP/1.1 431 Request Header Fields Too Large\r\n"},
	} {
		if got := asking(t, c.says); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: the proxy says %q, expected %q", c.what, got, c.want)
		}
	}
}

// A client may read the answer only after it has sent its body.
func TestAClientThatIsRefusedHasItsAnswerBehindABody(t *testing.T) {
	l := listen(t)
	run(t, &proxy.Proxy{Listener: l, Dial: proxy.Asked(func(context.Context, string, uint16) (net.Conn, error) {
		return nil, syscall.ECONNREFUSED
	})})
	for range 10 {
		c := dial(t, l.Addr().String())
		if _, err := io.WriteString(c, "POST http://echo/ HTTP/1.1\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100_000)); err != nil {
			t.Fatal(err)
		}
		c.CloseWrite()
		if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 405 ") {
			t.Errorf("%q, %v; want the status 405", got, err)
		}
	}
}

// A dial may take as long as a client may take to ask.
func TestAClientIsToldOfADialThatTakesTooLong(t *testing.T) {
	for _, c := range []struct{ what, says, reads, want string }{
		{"SOCKS5", "\x05\x01\x00", "\x05\x00", "\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00"},
		{"CONNECT", "", "", "HTTP/1.1 502 Bad Gateway\r\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := proxy.Asked(func(ctx context.Context, _ string, _ uint16) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			})
			client, from := net.Pipe()
			go func() {
				if to, err := asked(t.Context(), from); err == nil {
					to.Close()
				}
				from.Close()
			}()
			request := "CONNECT echo:7 HTTP/1.1\r\n\r\n"
			if c.says != "" {
				request = "\x05\x01\x00\x03\x04echo\x00\x07"
				io.WriteString(client, c.says)
				io.ReadFull(client, make([]byte, len(c.reads)))
			}
			io.WriteString(client, request)
			if got, err := io.ReadAll(client); err != nil || !strings.HasPrefix(string(got), c.want) {
				t.Errorf("%s: the proxy says %q, %v; expected %q", c.what, got, err, c.want)
			}
		})
	}
}

// late is a connection that is closed after the answer.
type late struct {
	net.Conn
	deadlines int
}

func (c *late) SetDeadline(t time.Time) error {
	// The fourth call lifts the deadline of the answer: the question and the answer have two each.
	if c.deadlines++; c.deadlines == 4 {
		return net.ErrClosed
	}
	return c.Conn.SetDeadline(t)
}

func TestAConnectionThatEndsBehindItsAnswerLeavesNoneThatWasDialled(t *testing.T) {
	client, from := net.Pipe()
	defer client.Close()
	to, server := net.Pipe()
	asked := proxy.Asked(func(context.Context, string, uint16) (net.Conn, error) { return to, nil })
	go func() {
		io.WriteString(client, "CONNECT echo:7 HTTP/1.1\r\n\r\n")
		io.Copy(io.Discard, client)
	}()
	if _, err := asked(t.Context(), &late{Conn: from}); err == nil {
		t.Fatal("a connection that is closed is carried")
	}
	_ = server.SetDeadline(time.Now().Add(patience))
	if _, err := server.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection that was dialled: %v; expected its end", err)
	}
}
