package stream

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// onSwitch is two processes whose NICs share a switch.
func onSwitch(t *testing.T) (a, b *weft.Process) {
	t.Helper()
	cfg := weft.Config{Switch: weft.NewSwitch()}
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

// A server accepts for as long as it lives, and has connections that say nothing. What comes for the one stream that talks need not pass
// through another goroutine for that.
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
	for i := range conns { // but for the last they are silent
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
	// Another stream that begins to talk is heard, and so is a fourth that is dialled meanwhile.
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
