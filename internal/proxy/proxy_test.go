package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/proxy"
	"github.com/weftnet/weft/stream"
)

// patience limits waits for events that happen soon unless something is broken.
const patience = time.Minute

// listen returns a TCP listener that is closed at the end of the test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// serveEach calls serve for each connection to a server, and closes the connection afterwards.
func serveEach(server net.Listener, serve func(net.Conn)) {
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
}

// run runs a proxy, and returns a function that interrupts it and waits for its end.
func run(t *testing.T, p *proxy.Proxy) (interrupt func()) {
	t.Helper()
	p.Log = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	once := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("a proxy ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("a proxy does not end")
		}
	})
	t.Cleanup(once)
	return once
}

// tunnel connects a TCP address over the fabric to a server: connections to the address arrive at
// the server.
func tunnel(t *testing.T, server net.Listener, drain time.Duration) (address string, in, out *proxy.Proxy, interrupt func()) {
	t.Helper()
	return tunnelFrom(t, listen(t), server, drain)
}

// tunnelFrom is tunnel with an existing listener.
func tunnelFrom(t *testing.T, first, server net.Listener, drain time.Duration) (address string, in, out *proxy.Proxy, interrupt func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sw := weft.NewSwitch()
	open := func(app string, nodes ...weft.Node) *weft.Process {
		p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: app}, Link: sw.Link(), Nodes: nodes})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	a := open("a")
	b := open("b", weft.Node{ID: a.NIC().ID(), Addr: a.NIC().Addr()})
	l, err := stream.Listen(a, "svc")
	if err != nil {
		t.Fatal(err)
	}
	out = &proxy.Proxy{Listener: l, Drain: drain, Dial: func(ctx context.Context, _ net.Conn) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, server.Addr().Network(), server.Addr().String())
	}}
	run(t, out)
	in = &proxy.Proxy{Listener: first, Drain: drain, Dial: func(ctx context.Context, _ net.Conn) (net.Conn, error) {
		d := &stream.Dialer{Process: b, Timeout: patience, Requested: func() { proxy.Began(ctx) }}
		return d.DialContext(ctx, "", "a/0:svc")
	}}
	return first.Addr().String(), in, out, run(t, in)
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

func TestConnectionsGoOverTheFabricWithEachEndByItself(t *testing.T) {
	server := listen(t)
	serveEach(server, func(c net.Conn) { // answers when it has read everything
		b, _ := io.ReadAll(c)
		c.Write(append(b, "answered"...))
	})
	address, in, out, _ := tunnel(t, server, patience)
	var wg sync.WaitGroup
	for k := range 10 {
		wg.Go(func() {
			c := dial(t, address)
			question := bytes.Repeat([]byte{byte(k)}, k*50_000)
			if _, err := c.Write(question); err != nil {
				t.Error(err)
				return
			}
			c.CloseWrite()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, append(question, "answered"...)) {
				t.Errorf("%d bytes came back of %d: %v", len(got), len(question), err)
			}
		})
	}
	wg.Wait()
	for deadline := time.Now().Add(patience); in.Counts().Open+out.Counts().Open > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	want := proxy.Counts{Accepted: 10, There: 45 * 50_000, Back: 45*50_000 + 80}
	if got := in.Counts(); got != want {
		t.Errorf("%+v went in, want %+v", got, want)
	}
	if got := out.Counts(); got != want {
		t.Errorf("%+v came out, want %+v", got, want)
	}
}

func TestAFailureIsPassedOnAsOne(t *testing.T) {
	server := listen(t)
	address, in, _, _ := tunnel(t, server, patience)
	c := dial(t, address)
	if _, err := c.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	s, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(s, make([]byte, 8))
	s.(*net.TCPConn).SetLinger(0)
	s.Close()
	if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection whose other end was reset: %v", err)
	}
	server.Close()
	gone, err := net.Dial("tcp", address)
	// Otherwise the reset came so early that Dial returned it.
	if err == nil {
		defer gone.Close()
		_, err = io.ReadAll(gone)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection to a server that is not there: %v", err)
	}
	for deadline := time.Now().Add(patience); in.Counts().Open > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	// The second connection may end before its dial.
	if got := in.Counts(); got.Accepted != 2 || got.Reset < 1 || got.Reset+got.Refused != 2 {
		t.Errorf("%+v; want 2 accepted, and both reset or refused", got)
	}
}

// In each proxy, bytes that the server does not read are in front of the reset.
func TestAResetIsPassedOnWhileItsDirectionWaitsToWrite(t *testing.T) {
	server := listen(t)
	address, in, out, _ := tunnel(t, server, patience)
	c := dial(t, address)
	for full := false; !full; {
		if err := c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Write(make([]byte, 1<<20))
		if full = errors.Is(err, os.ErrDeadlineExceeded); err != nil && !full {
			t.Fatal(err)
		}
	}
	s, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c.SetLinger(0)
	c.Close()
	for deadline := time.Now().Add(patience); in.Counts().Open+out.Counts().Open > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	for name, p := range map[string]*proxy.Proxy{"in": in, "out": out} {
		if got := p.Counts(); got.Open != 0 || got.Reset != 1 {
			t.Errorf("%s: %+v; want none open, and one reset", name, got)
		}
	}
	if _, err := io.Copy(io.Discard, s); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server reads to %v", err)
	}
}

// The kernel has no other reset for unix sockets; the documentation says so.
func TestAUnixSocketTellsOfAFailureOnlyIfBytesAreUnread(t *testing.T) {
	for _, c := range []struct {
		says string
		want error
	}{{"", nil}, {"unread", syscall.ECONNRESET}} {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "a.sock"))
		if err != nil {
			t.Fatal(err)
		}
		said := make(chan bool)
		run(t, &proxy.Proxy{Listener: l, Dial: func(context.Context, net.Conn) (net.Conn, error) {
			<-said
			return nil, syscall.ECONNREFUSED
		}})
		client, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := io.WriteString(client, c.says); err != nil {
			t.Fatal(err)
		}
		close(said)
		if _, err := io.ReadAll(client); !errors.Is(err, c.want) {
			t.Errorf("behind %q, which is not read: %v; want %v", c.says, err, c.want)
		}
	}
}

// An interrupt ends no connection before Drain is over.
func TestAnInterruptDrains(t *testing.T) {
	for _, drain := range []time.Duration{0, patience} {
		server := listen(t)
		address, _, _, interrupt := tunnel(t, server, drain)
		c := dial(t, address)
		c.Write([]byte("x"))
		s, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(s, make([]byte, 1))
		go func() { // accepts the connections that are still accepted below
			for {
				c, err := server.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		over := make(chan bool)
		go func() { interrupt(); close(over) }()
		for { // until nothing more is accepted
			c, err := net.DialTimeout("tcp", address, patience)
			if err != nil {
				break
			}
			c.Close()
		}
		if drain > 0 {
			s.Write([]byte("answer"))
			s.Close()
		}
		got, err := io.ReadAll(c)
		c.Close()
		if drain > 0 && (string(got) != "answer" || err != nil) || drain == 0 && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("within %v: %q, %v", drain, got, err)
		}
		s.Close()
		<-over
	}
}
