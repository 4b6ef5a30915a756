package proxy

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// streamAddr is the address of a stream: PROCESS:NUMBER.
type streamAddr string

func (streamAddr) Network() string  { return "weft" }
func (a streamAddr) String() string { return string(a) }

// Connections of one source by one way have one order. Connections of another source or another
// way have a separate order.
func TestTheOrderIsThatOfOneSourceAndOneWay(t *testing.T) {
	w, other := new(Way), new(Way)
	at := func(host string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(host), Port: port} }
	for name, c := range map[string]struct {
		a, b turnKey
		same bool
	}{
		"two ports of a host":            {keyOf(w, at("192.0.2.1", 1)), keyOf(w, at("192.0.2.1", 2)), true},
		"two hosts":                      {keyOf(w, at("192.0.2.1", 1)), keyOf(w, at("192.0.2.2", 1)), false},
		"two ways":                       {keyOf(w, at("192.0.2.1", 1)), keyOf(other, at("192.0.2.1", 1)), false},
		"two streams of a process":       {keyOf(w, streamAddr("a/0:1")), keyOf(w, streamAddr("a/0:22")), true},
		"streams of two processes":       {keyOf(w, streamAddr("a/0:1")), keyOf(w, streamAddr("a/1:1")), false},
		"streams by two ways":            {keyOf(w, streamAddr("a/0:1")), keyOf(other, streamAddr("a/0:1")), false},
		"two clients without a name":     {keyOf(w, streamAddr("")), keyOf(w, streamAddr("")), true},
		"a host and a process beside it": {keyOf(w, at("192.0.2.1", 1)), keyOf(w, streamAddr("192.0.2.1")), false},
	} {
		if (c.a == c.b) != c.same {
			t.Errorf("%s have one order: %v; expected %v", name, c.a == c.b, c.same)
		}
	}
}

// A dial waits for the dial before it, at most for the limited time since its accept, and not
// after the end of its proxy. After the limit, it waits only until the dial before has begun.
func TestADialWaitsForTheOneBefore(t *testing.T) {
	const within = time.Minute
	over := errors.New("the proxy ends")
	for name, c := range map[string]struct {
		before func(first *turn, end context.CancelCauseFunc) // runs concurrently with the wait
		took   time.Duration
		err    error
	}{
		"the one before is over at once":        {func(first *turn, _ context.CancelCauseFunc) { first.pass() }, 0, nil},
		"the one before is over in time":        {func(first *turn, _ context.CancelCauseFunc) { time.Sleep(within / 2); first.pass() }, within / 2, nil},
		"the one before has begun, and goes on": {func(first *turn, _ context.CancelCauseFunc) { _ = first.wait(context.Background(), within) }, within, nil},
		"the one before begins late, and goes on": {func(first *turn, _ context.CancelCauseFunc) {
			time.Sleep(2 * within)
			_ = first.wait(context.Background(), within)
		}, 2 * within, nil},
		"the proxy ends in time": {func(_ *turn, end context.CancelCauseFunc) { time.Sleep(within / 2); end(over) }, within / 2, over},
		"the proxy ends late":    {func(_ *turn, end context.CancelCauseFunc) { time.Sleep(2 * within); end(over) }, 2 * within, over},
	} {
		synctest.Test(t, func(t *testing.T) {
			var o turns
			w, from := new(Way), streamAddr("a/0:1")
			first := o.take(w, from)
			second := o.take(w, from)
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			go c.before(first, end)
			since := time.Now()
			err := second.wait(ctx, within)
			if took := time.Since(since); !errors.Is(err, c.err) || took != c.took {
				t.Errorf("%s: the dial begins after %v, %v; expected %v, %v", name, took, err, c.took, c.err)
			}
			select {
			case <-second.begun:
			default:
				t.Errorf("%s: the next dial is not told that this one has begun", name)
			}
			if second.before != nil {
				t.Errorf("%s: the dial keeps the one before", name)
			}
			synctest.Wait()
			first.pass()
			second.pass()
			if len(o.last) != 0 {
				t.Errorf("%s: %d turns are left", name, len(o.last))
			}
		})
	}
}

// A client that waits in the queue of its source waits for all earlier ones at the same time.
func TestTheBoundOfAWaitBeginsWithTheAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o turns
		w, from := new(Way), streamAddr("a/0:1")
		first, second := o.take(w, from), o.take(w, from)
		if err := first.wait(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		begun := time.Now()
		if err := second.wait(t.Context(), time.Minute); err != nil || time.Since(begun) != 10*time.Second {
			t.Errorf("50 s behind its accept a dial waits %v more, %v; expected 10 s", time.Since(begun), err)
		}
	})
}
