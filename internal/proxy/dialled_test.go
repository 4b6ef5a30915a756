package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/internal/newcomers"
)

// noted is a connection that records how it ends.
type noted struct {
	net.Conn
	mu     sync.Mutex
	how    string
	closes error // error of CloseWrite
}

func (c *noted) note(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.how += how
}

// seen returns how the connection has ended so far.
func (c *noted) seen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.how
}

func (c *noted) Close() error        { c.note("close "); return c.Conn.Close() }
func (c *noted) SetLinger(int) error { c.note("linger "); return nil }
func (c *noted) CloseWrite() error   { c.note("end "); return c.closes }

// stopped is a connection that can be aborted.
type stopped struct {
	noted
	says error // error of a Write
}

func (c *stopped) Abort() { c.note("abort "); c.Conn.Close() }
func (c *stopped) Write([]byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 0, c.says
}

// fails makes each later Write fail.
func (c *stopped) fails(says error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.says = says
}

// newProxy returns a proxy with room for the given number of connections.
func newProxy(most int) *Proxy {
	p := &Proxy{newcomers: newcomers.New(8), Log: slog.New(slog.DiscardHandler)}
	p.admitted.most = most
	return p
}

// A way may have Asks set although its Dial asks nothing. Its clients are then admitted after the
// dial. If there is no room for a client, the proxy closes the connection that it dialled.
func TestAConnectionThatWasDialledForAClientWithoutRoomIsClosed(t *testing.T) {
	p := newProxy(1)
	var dialled []*noted
	w := &Way{Asks: true, Dial: func(context.Context, net.Conn) (net.Conn, error) {
		c := &noted{Conn: end(t)}
		dialled = append(dialled, c)
		return c, nil
	}}
	first, second := p.enter(end(t), w), p.enter(end(t), w)
	if to, err := p.dial(t.Context(), end(t), first); err != nil || to != dialled[0] || dialled[0].seen() != "" {
		t.Fatalf("the first client: %v, %v", to, err)
	}
	if to, err := p.dial(t.Context(), end(t), second); !errors.Is(err, errFull) || to != nil || dialled[1].seen() != "close " {
		t.Errorf("the second client: %v, %v, and what was dialled notes %q; expected %v and its close", to, err, dialled[1].seen(), errFull)
	}
	first.leave()
	second.leave()
	if p.admitted.used != 0 || p.newcomers.Len() != 0 {
		t.Errorf("%d connections and %d newcomers are left", p.admitted.used, p.newcomers.Len())
	}
}

// If there is no room for a client, the proxy dials nothing for it, and the client's turn delays
// no other client.
func TestAClientWithoutRoomIsNotDialledFor(t *testing.T) {
	p := newProxy(1)
	w := &Way{Dial: func(context.Context, net.Conn) (net.Conn, error) { return nil, syscall.ECONNREFUSED }}
	first, second := p.enter(end(t), w), p.enter(end(t), w)
	if first.newcomer != nil || p.newcomers.Len() != 0 || second.turn != nil {
		t.Error("a client of a way that asks nothing is a newcomer, or has a turn without room")
	}
	w.Dial = func(context.Context, net.Conn) (net.Conn, error) {
		t.Error("a client without room is dialled for")
		return nil, nil
	}
	if _, err := p.dial(t.Context(), end(t), second); !errors.Is(err, errFull) || !strings.HasSuffix(err.Error(), "(1)") {
		t.Errorf("a client without room: %v", err)
	}
	second.leave()
	if p.admitted.used != 1 {
		t.Errorf("%d connections have a place; expected that of the first", p.admitted.used)
	}
	first.turn.pass()
	first.leave()
}

// A client that reads the reason of its refusal counts as a newcomer, and occupies no place.
func TestARefusedClientTakesNoPlaceWhileItReads(t *testing.T) {
	p := newProxy(1)
	w := &Way{Asks: true}
	a := p.enter(end(t), w)
	a.dismiss(end(t)) // it was not admitted
	if p.newcomers.Len() != 1 || p.admitted.used != 0 {
		t.Errorf("a newcomer that is refused: %d newcomers, %d places", p.newcomers.Len(), p.admitted.used)
	}
	if err := errors.Join(a.admit(), a.admit()); err != nil || p.admitted.used != 1 || p.newcomers.Len() != 0 {
		t.Fatalf("%v, %d newcomers, %d places; expected one place", err, p.newcomers.Len(), p.admitted.used)
	}
	a.dismiss(end(t))
	if p.newcomers.Len() != 1 || p.admitted.used != 0 || a.gaveWay() {
		t.Errorf("an admitted client that is refused: %d newcomers, %d places; expected one newcomer", p.newcomers.Len(), p.admitted.used)
	}
	a.leave()
	if p.newcomers.Len() != 0 || p.admitted.used != 0 {
		t.Errorf("behind the client: %d newcomers, %d places", p.newcomers.Len(), p.admitted.used)
	}
}

// Each refusal is counted once, by its reason. If a client was told the reason, its connection is
// not reset.
func TestARefusalIsCountedByItsReason(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want Counts
		ends string
	}{
		"a dial that fails":       {syscall.ECONNREFUSED, Counts{Refused: 1}, "linger close "},
		"no room":                 {errFull, Counts{Full: 1}, "linger close "},
		"no room, and told":       {errTold{errFull}, Counts{Full: 1}, "end close "},
		"a wrong password":        {errTold{errWrong}, Counts{Wrong: 1}, "end close "},
		"no check of a password":  {errTold{errUnchecked}, Counts{Unchecked: 1}, "end close "},
		"a request that is wrong": {errTold{io.ErrNoProgress}, Counts{Refused: 1}, "end close "},
	} {
		p := newProxy(1)
		client, from := net.Pipe()
		client.Close()
		n := &noted{Conn: from}
		a := p.enter(n, &Way{Asks: true})
		p.refuse(t.Context(), n, a, c.err)
		a.leave()
		if got := p.Counts(); got != c.want || n.seen() != c.ends {
			t.Errorf("%s: it counts %+v, and the client sees %q; expected %+v and %q", name, got, n.seen(), c.want, c.ends)
		}
	}
}

// A connection ends by the hardest available means: an abort, a reset, or a close.
func TestAConnectionEndsAsHardAsItCan(t *testing.T) {
	aborts, lingers := &stopped{noted: noted{Conn: end(t)}}, &noted{Conn: end(t)}
	reset(aborts)
	reset(lingers)
	if aborts.seen() != "abort " || lingers.seen() != "linger close " {
		t.Errorf("a stream notes %q and a socket %q; expected an abort, and a close without linger", aborts.seen(), lingers.seen())
	}
	plain := end(t)
	reset(plain)
	if _, err := plain.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a connection that can only be closed: %v", err)
	}
	plain = end(t)
	if err := closeWrite(plain); err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a connection of which no direction ends by itself: %v", err)
	}
}

// A stream reports its failure in an empty Write. An orderly end is no failure.
func TestAStreamHasFailedWhenItsWriteSaysSo(t *testing.T) {
	for says, want := range map[error]error{nil: nil, syscall.EPIPE: nil, syscall.ECONNRESET: syscall.ECONNRESET, io.ErrClosedPipe: io.ErrClosedPipe} {
		if err := failed(&stopped{noted: noted{Conn: end(t)}, says: says}); err != want {
			t.Errorf("a stream whose Write says %v has failed by %v; expected %v", says, err, want)
		}
	}
	if err := failed(end(t)); err != nil {
		t.Errorf("a connection that cannot tell has failed by %v", err)
	}
}

// While a Write waits, the proxy checks its source repeatedly. The first failure resets both
// ends, and the log shows the side that failed. After the Write has returned, the proxy does
// nothing.
func TestAWriteThatWaitsLooksAtItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := &stopped{noted: noted{Conn: end(t)}}, &noted{Conn: end(t)}
		p := newProxy(1)
		c := p.begin(from, to)
		w := newPasser(to, from, &p.counts.there, &c.there)
		w.fault, w.source, w.sink = new(fault), byFrom, byTo
		from.fails(syscall.ECONNRESET)
		w.look() // late: no Write waits
		if from.seen()+to.seen() != "" {
			t.Fatalf("a look without a Write ends the connection: %q, %q", from.seen(), to.seen())
		}
		from.fails(nil)
		written := make(chan error, 1)
		go func() {
			_, err := w.Write([]byte("x"))
			written <- err
		}()
		time.Sleep(10*lookEvery + lookEvery/2)
		if from.seen()+to.seen() != "" {
			t.Fatalf("a source that has not failed is ended: %q, %q", from.seen(), to.seen())
		}
		from.fails(syscall.ECONNRESET)
		begun := time.Now()
		if err := <-written; err == nil || time.Since(begun) > lookEvery {
			t.Errorf("the Write ends with %v after %v; expected an error within %v", err, time.Since(begun), lookEvery)
		}
		synctest.Wait()
		if by, err := w.fault.first(); by != byFrom || !errors.Is(err, syscall.ECONNRESET) || from.seen() != "abort " || to.seen() != "linger close " {
			t.Errorf("the failure is %v by %s; the ends note %q and %q", err, by, from.seen(), to.seen())
		}
		if w.broken.Load() == nil || c.there.Load() != 0 || p.counts.there.Load() != 0 {
			t.Error("a Write that failed is not noted, or is counted")
		}
	})
}

// If the end of a direction cannot be passed on, the direction has failed at its sink.
func TestAnEndThatCannotBePassedOnIsAFailureOfItsSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(1)
		client, source := net.Pipe()
		client.Close()
		from, to := &noted{Conn: source}, &noted{Conn: end(t), closes: syscall.ENOTCONN}
		c := p.begin(from, to)
		there, back := newPasser(to, from, &p.counts.there, &c.there), newPasser(from, to, &p.counts.back, &c.back)
		why := new(fault)
		there.fault, there.source, there.sink = why, byFrom, byTo
		begun := time.Now()
		there.pass(back) // back never ends
		if by, err := why.first(); by != byTo || !errors.Is(err, syscall.ENOTCONN) {
			t.Errorf("the connection failed by %v, %s; expected %v by the sink", err, by, syscall.ENOTCONN)
		}
		if took := time.Since(begun); took != lastWords || from.seen() != "linger close " || to.seen() != "end linger close " {
			t.Errorf("after %v the ends note %q and %q; expected their reset after %v", took, from.seen(), to.seen(), lastWords)
		}
		<-there.over
	})
}

// A proxy forgets each connection after it has ended.
func TestAConnectionThatEndedIsNoneOfTheStatus(t *testing.T) {
	p := newProxy(1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.Listener = l
	a := p.begin(end(t), end(t))
	b := p.begin(end(t), end(t))
	a.since, b.since = time.Unix(2, 0), time.Unix(1, 0)
	a.there.Store(3)
	a.back.Store(4)
	live := p.Status().Connections
	if len(live) != 2 || live[0].Since != b.since || live[1].There != 3 || live[1].Back != 4 {
		t.Errorf("%+v; expected two, the oldest first, with their bytes", live)
	}
	p.end(a)
	p.end(b)
	if len(p.live) != 0 {
		t.Errorf("%d connections are left", len(p.live))
	}
	for own, remotes := range map[string][]string{"own": {"", "@"}, "": {"other"}} {
		for _, remote := range remotes {
			want := own + strings.Trim(remote, "@")
			if got := name(streamAddr(remote), streamAddr(own)); got != want {
				t.Errorf("a connection from %q at %q is named %q; expected %q", remote, own, got, want)
			}
		}
	}
}
