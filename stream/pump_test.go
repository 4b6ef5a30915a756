package stream

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// onSwitch returns two processes whose NICs share a switch.
func onSwitch(t *testing.T) (a, b *weft.Process) {
	t.Helper()
	return linked(t, weft.Config{Link: weft.NewSwitch().Link()})
}

// linked returns two processes, each with its own NIC.
func linked(t *testing.T, cfg weft.Config) (a, b *weft.Process) {
	t.Helper()
	open := func(app string) *weft.Process {
		cfg.Name = weft.Name{App: app}
		p, err := weft.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		cfg.Nodes = append(cfg.Nodes, weft.Node{ID: p.NIC().ID(), Addr: p.NIC().Addr()})
		return p
	}
	a, b = open("a"), open("b")
	if _, err := b.WaitName(t.Context(), a.Name()); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// A server accepts all the time, and some of its connections are silent. Nevertheless, bytes of
// the only active stream need not pass through another goroutine.
func TestTheReadOfTheOnlyStreamThatTalksPumpsThoughAcceptsAndSilentReadsWait(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, client := onSwitch(t)
	l, err := Listen(server, "echo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}) }()
		}
	}()
	d := &Dialer{Process: client}
	conns := make([]net.Conn, 3)
	for i := range conns { // all but the last are silent
		if conns[i], err = d.Dial(ctx, l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conns[i].Close() })
		if i < len(conns)-1 {
			go func() { _, _ = conns[i].Read(make([]byte, 1)) }()
		}
	}
	turns := func() uint64 {
		h, err := hostOf(server)
		if err != nil {
			t.Fatal(err)
		}
		h.owed.Lock()
		defer h.owed.Unlock()
		return h.pump.turns
	}
	before := turns()
	const echoes = 500
	c, b := conns[len(conns)-1], make([]byte, 64)
	for range echoes {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
	}
	if n := turns() - before; n < echoes/10 {
		t.Errorf("of %d messages to the server its Read took in %d itself; expected most", echoes, n)
	}
	// Another stream that becomes active is received, and so is a fourth stream that is dialled
	// meanwhile.
	for range 3 {
		other, err := d.Dial(ctx, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []net.Conn{conns[1], other} {
			if _, err := c.Write(b[:1]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.ReadFull(other, b[:1]); err != nil {
			t.Fatal(err)
		}
		other.Close()
	}
}

// leading returns a stream that has received bytes, and whose Reads and Writes pump messages
// themselves.
func leading(t *testing.T, service string, bytes int) *Conn {
	t.Helper()
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, service)
	if _, err := c.Write(make([]byte, bytes)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	for busy := true; busy; {
		if _, err := s.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(b); err != nil {
			t.Fatal(err)
		}
		c.h.owed.Lock()
		busy = c.h.pump.busy || c.h.pump.others()
		c.h.owed.Unlock()
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// A Read first checks the received bytes, and then pumps the next message. In between, another
// goroutine may have pumped the very message that the Read waits for. The Read must then not wait
// for one more message, which may never arrive.
func TestAReadDoesNotWaitBehindWhatAnotherHasTakenInForIt(t *testing.T) {
	for name, m := range map[string]message{"bytes": {kind: kindData, rest: []byte("x")}, "end": {kind: kindFin}} {
		c := leading(t, name, 0)
		if n, err := c.readNow(make([]byte, 1)); n > 0 || err != nil {
			t.Fatal(n, err)
		}
		m.sender, m.offset = c.peerNumber, c.received
		c.take(c.remote.Process, c.peer, &m)
		c.waitToRead()
		if c.late(c.readEnd) != nil {
			t.Errorf("%s: the Read has waited until its deadline", name)
		}
	}
}

// The same holds for a Write that waits for room.
func TestAWriteDoesNotWaitBehindRoomThatAnotherHasTakenIn(t *testing.T) {
	c := leading(t, "room", readBuffer)
	ctx, room, _, err := c.mayWrite(1)
	if err != nil || room > 0 {
		t.Fatal(room, err)
	}
	c.take(c.remote.Process, c.peer, &message{kind: kindWindow, sender: c.peerNumber, offset: 2 * readBuffer})
	c.waitForRoom(ctx)
	if c.late(c.writeEnd) != nil {
		t.Error("the Write has waited until its deadline")
	}
	c.wrote(nil)
}
