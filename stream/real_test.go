package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// fabrics are the configurations of the embedded NICs that the tests of this file use.
var fabrics = map[string]weft.Config{
	"switch":           {},
	"udp":              {Link: weft.UDP("127.0.0.1:0")},
	"udp, 2 % of loss": {Link: weft.UDP("127.0.0.1:0"), Faults: &weft.Faults{Loss: 0.02}},
}

// pair returns two processes, each with its own NIC.
func pair(t testing.TB, cfg weft.Config) (a, b *weft.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if cfg.Link == (weft.Link{}) {
		cfg.Link = weft.NewSwitch().Link()
	}
	open := func(app string) *weft.Process {
		cfg.Name = weft.Name{App: app}
		p, err := weft.Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		cfg.Nodes = append(cfg.Nodes, weft.Node{ID: p.NIC().ID(), Addr: p.NIC().Addr()})
		return p
	}
	a, b = open("a"), open("b")
	if _, err := b.WaitName(ctx, a.Name()); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// joined returns the two ends of a stream.
func joined(l *stream.Listener, d *stream.Dialer) (dialled, accepted net.Conn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	came := make(chan error, 1)
	go func() {
		var err error
		accepted, err = l.Accept()
		came <- err
	}()
	if dialled, err = d.DialContext(ctx, "weft", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	return dialled, accepted, <-came
}

func TestStreamsAreConnsAsPackageNetWantsThem(t *testing.T) {
	for name, cfg := range fabrics {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, cfg)
			l, err := stream.Listen(a, "test")
			if err != nil {
				t.Fatal(err)
			}
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				c1, c2, err = joined(l, &stream.Dialer{Process: b})
				return c1, c2, func() { c1.Close(); c2.Close() }, err
			})
		})
	}
}

func TestWhatCannotBeDialledIsRefused(t *testing.T) {
	a, b := pair(t, weft.Config{})
	l, err := (&stream.ListenConfig{Process: a, Backlog: 1}).Listen("one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Listen(a, "one"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second listener: %v", err)
	}
	dial := func(ctx context.Context, address string) error {
		c, err := stream.Dial(ctx, b, address)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := dial(ctx, "a/0:nothing"); !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "nothing listens") {
		t.Errorf("a service that nothing listens to: %v", err)
	}
	for range 100 { // no message may remain that could disturb another one
		if _, err := stream.Dial(ctx, a, "b/0:nothing"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("a process whose streams are all its own: %v", err)
		}
	}
	if err := dial(ctx, "a/0:one"); err != nil {
		t.Fatal(err)
	}
	if err := dial(ctx, "a/0:one"); !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "backlog is full") {
		t.Errorf("a full backlog: %v", err)
	}
	for _, address := range []string{"a/0", "a/0:", "a b:x", "a/0:" + strings.Repeat("x", 256)} {
		if err := dial(ctx, address); err == nil {
			t.Errorf("%q was dialled", address)
		}
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := dial(ended, "a/0:one"); !errors.Is(err, context.Canceled) {
		t.Errorf("a dial whose context has ended: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := dial(ctx, "a/0:one"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a listener that was closed: %v", err)
	}
}

// A process that has never used streams contains no code that could answer. Its NIC answers.
func TestAProcessWithoutStreamsRefuses(t *testing.T) {
	for name, cfg := range fabrics {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, cfg)
			refuses(t, a, b)
		})
	}
}

// refuses dials from b to a. Neither process has used streams.
func refuses(t *testing.T, a, b *weft.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 10 {
		if _, err := stream.Dial(ctx, b, "a/0:nothing"); !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "nothing listens") {
			t.Fatal(err)
		}
	}
	for range 10 { // a dial must succeed as soon as there is a listener
		l, err := stream.Listen(a, "late")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := joined(l, &stream.Dialer{Process: b}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// As with TCP, a stream that is closed with unread bytes fails at the other end. A stream that is
// closed in one direction goes on in the other.
func TestEndsAreToldApart(t *testing.T) {
	a, b := pair(t, weft.Config{})
	l, err := stream.Listen(a, "x")
	if err != nil {
		t.Fatal(err)
	}
	ends := func() (c, s net.Conn) {
		c, s, err := joined(l, &stream.Dialer{Process: b})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(); s.Close() })
		return c, s
	}
	buf := make([]byte, 100)

	c, s := ends() // half-close
	c.Write([]byte("question"))
	c.(*stream.Conn).CloseWrite()
	if got, err := io.ReadAll(s); string(got) != "question" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write behind CloseWrite: %v", err)
	}
	s.Write([]byte("answer"))
	s.Close()
	if got, err := io.ReadAll(c); string(got) != "answer" || err != nil {
		t.Errorf("%q, %v", got, err)
	}

	c, s = ends() // closed with bytes unread
	s.Write([]byte("unread"))
	for n := 0; n == 0; {
		n, _ = c.Read(buf[:1])
	}
	c.Close()
	if _, err := s.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a read of a stream that was reset: %v", err)
	}
	if _, err := c.Read(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read behind Close: %v", err)
	}

	_, s = ends() // the process ends
	a.Close()
	if _, err := s.Read(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read of a process that was closed: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an accept of a process that was closed: %v", err)
	}
}

// A server may write as soon as it has accepted, as servers of gRPC and of many mail and database
// protocols do. At that time its client may not have seen the answer to its dial.
func TestAServerMayWriteFirst(t *testing.T) {
	for name, cfg := range fabrics {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, cfg)
			l, err := stream.Listen(a, "greeter")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			const greeting = "220 ready\r\n"
			go func() {
				for c, err := l.Accept(); err == nil; c, err = l.Accept() {
					go func() { io.WriteString(c, greeting); c.Close() }()
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for i := range 200 {
				c, err := stream.Dial(ctx, b, "a/0:greeter")
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(c)
				c.Close()
				if err != nil || string(got) != greeting {
					t.Fatalf("stream %d: %q, %v", i, got, err)
				}
			}
		})
	}
}

// A program may have to dial again from another process after its own process has ended. It must
// be able to recognise this case.
func TestWhatIsDialledWhileAProcessEndsFailsAsClosed(t *testing.T) {
	for range 20 {
		a, b := pair(t, weft.Config{})
		l, err := stream.Listen(a, "test")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				if _, err := l.Accept(); err != nil {
					return
				}
			}
		}()
		failed := make(chan error)
		dial := func() (err error) {
			for err == nil {
				_, err = (&stream.Dialer{Process: b, Timeout: time.Minute}).DialContext(context.Background(), "weft", "a/0:test")
			}
			return err
		}
		listen := func() (err error) {
			for err == nil || errors.Is(err, syscall.EADDRINUSE) {
				_, err = stream.Listen(b, "test")
			}
			return err
		}
		for _, do := range []func() error{dial, listen, dial, listen, dial, dial, dial, dial, dial, dial, dial, dial} {
			go func() {
				failed <- do()
				failed <- do() // when the process has ended
			}()
		}
		time.Sleep(10 * time.Millisecond) // so that some streams exist
		b.Close()
		for range 24 {
			if err := <-failed; !errors.Is(err, net.ErrClosed) {
				t.Errorf("%v; expected %v", err, net.ErrClosed)
			}
		}
	}
}
