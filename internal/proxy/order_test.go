package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/proxy"
)

// If a client opens two connections, one after the other, the server gets them in this order, as
// over TCP. iperf3 --bidir depends on it.
func TestTwoProxiesKeepTheOrderOfConnections(t *testing.T) {
	const pairs = 300
	server := listen(t)
	firsts := make(chan net.Conn, 2*pairs)
	go func() { // one connection after the other, in the order of the accepts
		defer close(firsts)
		for range 2 * pairs {
			c, err := server.Accept()
			if err != nil {
				return
			}
			firsts <- c
		}
	}()
	address, _, _, _ := tunnel(t, server, 0)
	swapped := 0
	for range pairs {
		first, second := dial(t, address), dial(t, address)
		for i, c := range []net.Conn{first, second} {
			if _, err := c.Write([]byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 2 {
			c := <-firsts
			_ = c.SetDeadline(time.Now().Add(patience))
			var who [1]byte
			if _, err := io.ReadFull(c, who[:]); err != nil {
				t.Fatal(err)
			}
			if int(who[0]) != i {
				swapped++
			}
			c.Close()
		}
		first.Close()
		second.Close()
	}
	if swapped > 0 {
		t.Errorf("%d of %d pairs were swapped", swapped/2, pairs)
	}
}

// dials is a Dial whose calls the test sees, and which return when the test releases them.
type dials struct {
	seen    chan net.Addr
	release chan struct{}
}

func newDials(t *testing.T) *dials {
	d := &dials{make(chan net.Addr, 100), make(chan struct{})}
	t.Cleanup(sync.OnceFunc(func() { close(d.release) }))
	return d
}

func (d *dials) dial(ctx context.Context, from net.Conn) (net.Conn, error) {
	d.seen <- from.RemoteAddr()
	select {
	case <-d.release:
	case <-ctx.Done():
	}
	return nil, errors.New("no server is there")
}

// mustSee waits for the dial of a client.
func (d *dials) mustSee(t *testing.T, c net.Conn) {
	t.Helper()
	select {
	case at := <-d.seen:
		if at.String() != c.LocalAddr().String() {
			t.Fatalf("the dial of %v began; expected that of %v", at, c.LocalAddr())
		}
	case <-time.After(patience):
		t.Fatalf("the dial of %v does not begin", c.LocalAddr())
	}
}

// A dial that does not end delays the next dials of its source only for the limited time. All of
// them wait for the same time together, and they keep their order.
func TestASlowDialHoldsUpLaterOnesOfItsSourceForABoundedTime(t *testing.T) {
	l, d := listen(t), newDials(t)
	run(t, &proxy.Proxy{Listener: l, Dial: d.dial, OrderWithin: 50 * time.Millisecond})
	for range 5 {
		c := dial(t, l.Addr().String())
		defer c.Close()
		d.mustSee(t, c)
	}
}

// A dial that does not end delays no dial of another way.
func TestASlowDialHoldsUpNoOtherWay(t *testing.T) {
	one, two, slow, quick := listen(t), listen(t), newDials(t), newDials(t)
	run(t, &proxy.Proxy{Listener: one, Dial: slow.dial, OrderWithin: time.Hour, More: []proxy.Way{{Listener: two, Dial: quick.dial}}})
	first := dial(t, one.Addr().String())
	defer first.Close()
	slow.mustSee(t, first)
	waits := dial(t, one.Addr().String())
	defer waits.Close()
	other := dial(t, two.Addr().String())
	defer other.Close()
	quick.mustSee(t, other)
	if len(slow.seen) > 0 {
		t.Error("a dial overtook that of its source")
	}
	slow.release <- struct{}{}
	slow.mustSee(t, waits)
}

// A dial delays no other after it has reported that none can overtake it.
func TestADialThatHasBegunLetsTheNextBegin(t *testing.T) {
	l, d := listen(t), newDials(t)
	run(t, &proxy.Proxy{Listener: l, OrderWithin: time.Hour, Dial: func(ctx context.Context, from net.Conn) (net.Conn, error) {
		proxy.Began(ctx)
		proxy.Began(ctx)
		return d.dial(ctx, from)
	}})
	for range 5 {
		c := dial(t, l.Addr().String())
		defer c.Close()
		d.mustSee(t, c)
	}
}
