package stream

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// arrives passes a message to the host. It returns the kinds of the messages that belong to no
// stream and that the host owes the sender.
func (h *host) arrives(from weft.Name, at weft.Address, m message) (kinds []kind, bodies [][]byte) {
	h.strays = nil
	h.take(&weft.Message{From: from, Addr: at, Tag: tagOf(m.kind, m.number)}, m.bytes())
	for _, s := range h.strays {
		if s.to == from && uint32(s.tag) == m.sender {
			kinds, bodies = append(kinds, kind(s.tag>>kindShift)), append(bodies, s.body)
		}
	}
	return kinds, bodies
}

// A process resets only streams that a sender believes to be open and that do not exist here. It
// answers nothing else, so two processes never answer each other for ever.
func TestOnlyMessagesOfAnOpenStreamAreAnsweredByAReset(t *testing.T) {
	h := bareHost(t)
	failed := h.bare()
	failed.failLocked(errGap, false)
	for what, number := range map[string]uint32{"no stream": failed.number + 1, "a failed stream": failed.number} {
		for k := kindAccept; k <= kindPong; k++ {
			m := message{kind: k, number: number, sender: bareNumber}
			if k == kindData {
				m.rest = []byte("x")
			}
			var want []kind
			if k == kindData || k == kindPing || k == kindAccept && what == "no stream" {
				want = []kind{kindReset}
			}
			got, bodies := h.arrives(bareName, barePeer, m)
			if !slices.Equal(got, want) {
				t.Errorf("%s: kind %d is answered by %d; expected %d", what, k, got, want)
			}
			if len(got) > 0 && binary.LittleEndian.Uint32(bodies[0]) != number {
				t.Errorf("%s: the reset names stream %x; expected %d", what, bodies[0], number)
			}
		}
	}
}

// A host refuses a stream that has no listener or exceeds the backlog. It names the reason and
// keeps no state of the stream. A repeated request creates no second stream.
func TestAHostOpensEachStreamOnceAndWithinTheBacklog(t *testing.T) {
	h := bareHost(t)
	l := &Listener{h: h, addr: Addr{h.p.Name(), "x"}, backlog: 2, came: h.p.Runtime().NewGate()}
	h.listeners["x"] = l
	open := func(sender uint32, service string) message {
		return message{kind: kindOpen, sender: sender, offset: bareWindow, rest: []byte(service)}
	}
	later := barePeer
	later.Generation++
	for i, c := range []struct {
		at     weft.Address
		m      message
		want   refusal // 0: no refusal
		queued int
	}{
		{barePeer, open(1, "y"), refusedNoListener, 0},
		{barePeer, open(1, "xx"), refusedNoListener, 0},
		{barePeer, open(1, "x"), 0, 1},
		{barePeer, open(1, "x"), 0, 1},
		{later, open(1, "x"), 0, 2},
		{barePeer, open(2, "x"), refusedBacklog, 2},
		{later, open(1, "x"), 0, 2},
	} {
		got, bodies := h.arrives(bareName, c.at, c.m)
		if c.want == 0 && len(got) > 0 || c.want != 0 && (len(got) != 1 || got[0] != kindRefuse || refusal(bodies[0][numberBytes]) != c.want) {
			t.Errorf("request %d is answered by %d %x; expected refusal %d", i, got, bodies, c.want)
		}
		if len(l.queue) != c.queued || len(h.conns) != c.queued || len(h.accepted) != c.queued {
			t.Errorf("after request %d: %d streams wait, and %d and %d are in the tables; expected %d", i, len(l.queue), len(h.conns), len(h.accepted), c.queued)
		}
	}
	for i, c := range l.queue {
		if k := c.allDue(); !slices.Equal(k, []kind{kindAccept}) || c.window != bareWindow || c.remote.Process != bareName {
			t.Errorf("stream %d owes %d, with room for %d; expected an accept", i, k, c.window)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(h.conns) != 0 || len(h.accepted) != 0 {
		t.Errorf("%d and %d streams are left in the tables after Close", len(h.conns), len(h.accepted))
	}
}

// Numbers of streams wrap around. No stream gets number 0 or the number of another stream.
func TestNumbersOfStreamsAreFreeOnes(t *testing.T) {
	h := bareHost(t)
	h.last = 1<<32 - 2
	taken := newConn(h, 1, Addr{}, Addr{}, config{})
	h.conns[1] = taken
	for _, want := range []uint32{1<<32 - 1, 2, 3} {
		c := h.newConn(Addr{}, Addr{}, config{})
		if c.number != want || h.conns[want] != c || c.local.Service != fmt.Sprintf("#%d", want) {
			t.Errorf("stream %d (%v); expected number %d", c.number, c.local, want)
		}
	}
	other := newConn(h, 2, Addr{}, Addr{}, config{}) // not in the table
	if h.forget(other); h.conns[2] == nil || h.conns[1] != taken {
		t.Error("the end of a stream has removed another one")
	}
}

// The host removes the lanes of peers to which it no longer sends, and no other lanes.
func TestIdleLanesAreRemoved(t *testing.T) {
	h := bareHost(t)
	ls := lanes{h: h, of: map[weft.Name]*lane{}, sweep: keptLanes}
	at := func(i int) weft.Name { return weft.Name{App: "peer", Index: uint32(i)} }
	held, busy := ls.lane(at(0)), ls.lane(at(1))
	held.held = true
	busy.under = []*weft.Op{new(weft.Op)}
	// The operation is in flight from now on.
	if err := h.p.StartRecv(busy.under[0], weft.AnyProcess, 12345, nil); err != nil {
		t.Fatal(err)
	}
	for i := 2; i < keptLanes; i++ {
		ls.lane(at(i)).under = []*weft.Op{{}, {}}
	}
	for i := range keptLanes {
		if ls.lane(at(i)); len(ls.of) != keptLanes {
			t.Fatalf("%d lanes with %d peers", len(ls.of), keptLanes)
		}
	}
	ls.lane(at(keptLanes))
	if len(ls.of) != 3 || ls.of[at(0)] != held || ls.of[at(1)] != busy || ls.sweep != keptLanes {
		t.Errorf("%d lanes are left, and the next sweep is at %d; expected the held one, the busy one and a new one", len(ls.of), ls.sweep)
	}
	for i := range 2 * keptLanes {
		ls.lane(at(1000 + i)).held = true
	}
	if len(ls.of) < 2*keptLanes || ls.sweep < len(ls.of) {
		t.Errorf("%d lanes, and the next sweep is at %d; expected twice the lanes that stay", len(ls.of), ls.sweep)
	}
	busy.under[0].Cancel()
}

// These are the messages that a stream owes its peer after each way to end it. A second end adds
// no message.
func TestTheEndsOfAStreamAreToldOnce(t *testing.T) {
	ends := func(c *Conn) error { return c.CloseWrite() }
	closes := func(c *Conn) error { return c.Close() }
	aborts := func(c *Conn) error { c.Abort(); return nil }
	comes := func(m message) func(c *Conn) error { return func(c *Conn) error { c.takes(m); return nil } }
	bytes := comes(message{kind: kindData, rest: []byte("unread")})
	for what, c := range map[string]struct {
		do   []func(c *Conn) error
		want []kind
		err  error // error of the last call
	}{
		"CloseWrite":                         {[]func(c *Conn) error{ends}, []kind{kindFin}, nil},
		"CloseWrite twice":                   {[]func(c *Conn) error{ends, ends}, nil, nil},
		"Close":                              {[]func(c *Conn) error{closes}, []kind{kindClose}, nil},
		"Close twice":                        {[]func(c *Conn) error{closes, closes}, nil, net.ErrClosed},
		"Close after CloseWrite":             {[]func(c *Conn) error{ends, closes}, []kind{kindClose}, nil},
		"CloseWrite after Close":             {[]func(c *Conn) error{closes, ends}, nil, net.ErrClosed},
		"Close with unread bytes":            {[]func(c *Conn) error{bytes, closes}, []kind{kindReset}, nil},
		"Abort":                              {[]func(c *Conn) error{aborts}, []kind{kindReset}, nil},
		"Close after Abort":                  {[]func(c *Conn) error{aborts, closes}, nil, net.ErrClosed},
		"Close after a reset":                {[]func(c *Conn) error{comes(message{kind: kindReset}), closes}, nil, nil},
		"CloseWrite after a reset":           {[]func(c *Conn) error{comes(message{kind: kindReset}), ends}, nil, syscall.ECONNRESET},
		"CloseWrite after the peer's Close":  {[]func(c *Conn) error{comes(message{kind: kindClose}), ends}, []kind{kindFin}, nil},
		"a pong, after a ping":               {[]func(c *Conn) error{comes(message{kind: kindPing})}, []kind{kindPong}, nil},
		"no pong, after a state":             {[]func(c *Conn) error{comes(message{kind: kindWindow})}, nil, nil},
		"CloseWrite of a peer that was lost": {[]func(c *Conn) error{comes(message{kind: kindClose}), comes(message{kind: kindReset}), ends}, nil, nil},
	} {
		s := bareHost(t).bare()
		var got []kind
		var err error
		for _, do := range c.do {
			s.allDue()
			err = do(s)
		}
		if got = s.allDue(); !slices.Equal(got, c.want) || !isOr(err, c.err) {
			t.Errorf("%s: the stream owes %d (%v); expected %d (%v)", what, got, err, c.want, c.err)
		}
		if s.state == stateClosed && len(s.h.conns)+len(s.h.accepted) > 0 {
			t.Errorf("%s: the closed stream is still in the tables", what)
		}
		if failed := s.SetDeadline(time.Time{}); (failed != nil) != (s.state == stateClosed) || s.SetWriteDeadline(time.Time{}) == nil && failed != nil {
			t.Errorf("%s: SetDeadline: %v in phase %d", what, failed, s.state)
		}
	}
}
