package proxy

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// given is a listener that fails for lack of file descriptors, accepts connections, and then is
// closed.
type given struct {
	fails int
	conns []net.Conn
}

func (g *given) Accept() (net.Conn, error) {
	if g.fails > 0 {
		g.fails--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	if len(g.conns) == 0 {
		return nil, net.ErrClosed
	}
	c := g.conns[0]
	g.conns = g.conns[1:]
	return c, nil
}

func (*given) Close() error   { return nil }
func (*given) Addr() net.Addr { return &net.TCPAddr{} }

// A program that asks for the status and does not read it delays other programs only for a short
// time.
func TestAStatusThatIsNotReadHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Proxy{Listener: &given{}}
		silent, first := net.Pipe()
		defer silent.Close()
		asks, second := net.Pipe()
		defer asks.Close()
		begun := time.Now()
		go p.tellAll(t.Context(), &given{conns: []net.Conn{first, second}})
		if n, err := asks.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("the second that asks reads %d bytes, %v", n, err)
		}
		if took := time.Since(begun); took != tellWithin {
			t.Errorf("it waits %v for the first; expected %v", took, tellWithin)
		}
	})
}

// A proxy without file descriptors retries at growing intervals, and starts with the shortest
// again after a success.
func TestPausesOfAProxyWithoutDescriptorsGrowToTheirBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &given{fails: 10}
		var pauses []time.Duration
		again := func(_ error, pause time.Duration) { pauses = append(pauses, pause) }
		if _, err := acceptFrom(t.Context(), l, again); !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
		want := []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if !slices.Equal(pauses, want) {
			t.Errorf("the pauses are %v; expected %v", pauses, want)
		}
		l.fails, pauses = 1, nil
		if _, err := acceptFrom(context.Background(), l, again); err == nil || pauses[0] != leastPause {
			t.Errorf("behind a success the first pause is %v, %v; expected %v", pauses, err, leastPause)
		}
	})
}
