package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// handed is a listener whose connections come from the test.
type handed struct {
	conns  chan net.Conn
	fails  chan error
	closed chan struct{}
}

func newHanded() *handed {
	return &handed{make(chan net.Conn), make(chan error), make(chan struct{})}
}

func (l *handed) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case err := <-l.fails:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *handed) Close() error   { close(l.closed); return nil }
func (l *handed) Addr() net.Addr { return streamAddr("here") }

// ended reports whether a listener is closed.
func (l *handed) ended() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// echo returns a connection to a server that returns every byte.
func echo() net.Conn {
	a, b := net.Pipe()
	go func() { io.Copy(b, b); b.Close() }()
	return a
}

// If one listener fails, all ways end with its error. Their connections still have the time of
// the drain.
func TestAListenerThatFailsEndsAllWays(t *testing.T) {
	lost := errors.New("the process has lost its NIC")
	for fails := range 3 {
		synctest.Test(t, func(t *testing.T) {
			all := []*handed{newHanded(), newHanded(), newHanded()}
			dial := func(context.Context, net.Conn) (net.Conn, error) { return echo(), nil }
			p := &Proxy{Listener: all[0], Dial: dial, Drain: time.Minute, Log: slog.New(slog.DiscardHandler), More: []Way{{Listener: all[1], Dial: dial}, {Listener: all[2], Dial: dial}}}
			ended := make(chan error, 1)
			go func() { ended <- p.Run(t.Context()) }()
			var clients []net.Conn
			for _, l := range all {
				client, from := net.Pipe()
				l.conns <- from
				clients = append(clients, client)
			}
			synctest.Wait()
			if c := p.Counts(); c.Accepted != 3 || c.Open != 3 || len(p.Status().Connections) != 3 || p.Status().Listener != "here, here, here" {
				t.Errorf("%+v, %+v", c, p.Status())
			}
			begun := time.Now()
			all[fails].fails <- lost
			synctest.Wait()
			for i, l := range all {
				if !l.ended() {
					t.Errorf("way %d goes on", i)
				}
			}
			for _, c := range clients { // during the drain
				if _, err := io.WriteString(c, "x"); err != nil {
					t.Errorf("a client within the drain: %v", err)
				}
				if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
					t.Errorf("a client within the drain: %v", err)
				}
			}
			clients[0].Close() // a pipe cannot end a single direction
			if err := <-ended; !errors.Is(err, lost) || time.Since(begun) != p.Drain {
				t.Errorf("the proxy ends with %v after %v; expected %v after %v", err, time.Since(begun), lost, p.Drain)
			}
			for _, c := range clients[1:] {
				if _, err := c.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("a client behind the drain: %v; expected the end", err)
				}
			}
			if c := p.Counts(); c.Open != 0 || c.Reset != 3 || c.There != 3 || c.Back != 3 || p.admitted.used != 0 || len(p.live) != 0 || len(p.order.last) != 0 {
				t.Errorf("%+v; %d places, %d connections and %d turns are left", c, p.admitted.used, len(p.live), len(p.order.last))
			}
		})
	}
}

// A proxy that ends resets the connections that it is still dialling. Otherwise its defaults
// apply.
func TestAProxyThatEndsEndsWhatItDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHanded()
		p := &Proxy{Listener: l, Log: slog.New(slog.DiscardHandler), Dial: func(ctx context.Context, _ net.Conn) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		client, from := net.Pipe()
		n := &noted{Conn: from}
		l.conns <- n
		time.Sleep(time.Hour) // the dial takes long
		if n.seen() != "" || p.Counts().Open != 1 || p.admitted.most != limits.ProxyConnections {
			t.Errorf("as it dials, the client sees %q; %+v, %d places", n.seen(), p.Counts(), p.admitted.most)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the client sees %v", err)
		}
		if c := p.Counts(); c != (Counts{Accepted: 1, Refused: 1}) || p.admitted.used != 0 || !l.ended() {
			t.Errorf("%+v, and %d places", c, p.admitted.used)
		}
	})
}

// After a temporary failure, the proxy waits and accepts again. Any other failure ends it.
func TestOnlyAFailureThatPassesIsWaitedFor(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EMFILE: true, syscall.ENFILE: true, syscall.ENOBUFS: true, syscall.ENOMEM: true, syscall.ECONNABORTED: true,
		syscall.EINVAL: false, net.ErrClosed: false, syscall.EPERM: false,
	} {
		if got := passes(&net.OpError{Op: "accept", Err: err}); got != want {
			t.Errorf("%v passes: %v; expected %v", err, got, want)
		}
	}
}

// A proxy that ends waits neither for the request of a client, nor for a client that reads the
// reason of its refusal.
func TestAProxyThatEndsWaitsForNoClientThatIsSilent(t *testing.T) {
	for name, says := range map[string]string{"before its request": "", "within its request": "CONNECT ec", "behind its refusal": "GET / HTTP/1.1\r\n\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			l := newHanded()
			p := &Proxy{Listener: l, Asks: true, Log: slog.New(slog.DiscardHandler), Dial: Asked(func(context.Context, string, uint16) (net.Conn, error) { return echo(), nil })}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			client, from := net.Pipe()
			n := halfway{from}
			l.conns <- n
			go io.Copy(io.Discard, client)
			if _, err := io.WriteString(client, says); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if c := p.Counts(); c.Open != 1 || p.newcomers.Len() != 1 || p.admitted.used != 0 {
				t.Errorf("%s: %+v, %d newcomers, %d places; expected one newcomer", name, c, p.newcomers.Len(), p.admitted.used)
			}
			cancel()
			begun := time.Now()
			if err := <-ended; err != nil || time.Since(begun) != 0 {
				t.Errorf("%s: the proxy ends with %v after %v; expected at once", name, err, time.Since(begun))
			}
			if c := p.Counts(); c != (Counts{Accepted: 1, Refused: 1}) || p.newcomers.Len() != 0 {
				t.Errorf("%s: %+v, %d newcomers", name, c, p.newcomers.Len())
			}
			client.Close()
		})
	}
}

// broken is a connection whose Reads fail.
type broken struct {
	noted
	why error
}

func (b *broken) Read([]byte) (int, error) { return 0, b.why }

// A source that fails ends both ends at once, because there is nothing to wait for.
func TestAFailureOfASourceIsPassedOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(1)
		from, to := &broken{noted: noted{Conn: end(t)}, why: syscall.ECONNRESET}, &noted{Conn: end(t)}
		c := p.begin(from, to)
		there, back := newPasser(to, from, &p.counts.there, &c.there), newPasser(from, to, &p.counts.back, &c.back)
		there.fault, there.source, there.sink = new(fault), byFrom, byTo
		begun := time.Now()
		there.pass(back) // back never ends
		if by, err := there.fault.first(); by != byFrom || !errors.Is(err, syscall.ECONNRESET) || time.Since(begun) != 0 {
			t.Errorf("it failed by %v, %s, after %v; expected %v by the source, at once", err, by, time.Since(begun), syscall.ECONNRESET)
		}
		if from.seen() != "linger close " || to.seen() != "linger close " {
			t.Errorf("the ends note %q and %q; expected their reset", from.seen(), to.seen())
		}
	})
}

// Clients cannot flood the log of a running proxy.
func TestClientsCannotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := newHanded()
		p := &Proxy{Listener: l, Log: slog.New(slog.NewTextHandler(&log, nil)), Dial: func(context.Context, net.Conn) (net.Conn, error) { return nil, syscall.ECONNREFUSED }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		for range 2 * limits.LogLines {
			client, from := net.Pipe()
			l.conns <- from
			_, _ = client.Read(make([]byte, 1)) // reads its end
			client.Close()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := bytes.Count(log.Bytes(), []byte("\n")); n != limits.LogLines || p.Counts().Refused != 2*limits.LogLines {
			t.Errorf("%d clients have %d lines; expected %d", p.Counts().Refused, n, limits.LogLines)
		}
	})
}
