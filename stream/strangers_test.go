package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// answers checks that a stream carries bytes in both directions, and no bytes before them.
func answers(t *testing.T, a, b *Conn) {
	t.Helper()
	for i, ends := range [][2]*Conn{{a, b}, {b, a}} {
		want := fmt.Appendf(nil, "bytes in direction %d", i)
		if _, err := ends[0].Write(want); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("direction %d: read %q, %v; expected %q", i, got, err, want)
		}
	}
}

// Any process may send to the port of the streams, and numbers of streams can be guessed. A
// message counts only if it comes from the process and the stream at the other end.
func TestMessagesThatAStrangerForgesChangeNoStream(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "x")
	answers(t, c, s)
	name, at := client.Name(), client.Address()
	s.mu.Lock()
	received := s.received
	s.mu.Unlock()
	other, slot, gen := at, at, at
	other.NIC++
	slot.Slot++
	gen.Generation++
	for _, forged := range []struct {
		what   string
		from   weft.Name
		at     weft.Address
		sender uint32
	}{
		{"another NIC", weft.Name{App: "stranger"}, other, c.number},
		{"another process of the NIC", weft.Name{App: "stranger"}, slot, c.number},
		{"an earlier process of the slot", weft.Name{App: "stranger"}, gen, c.number},
		{"another stream of the peer", name, at, c.number + 1},
	} {
		for _, m := range []message{
			{kind: kindData, offset: received, rest: []byte("forged")},
			{kind: kindWindow, offset: 1 << 40, sent: received, end: endsBoth},
			{kind: kindPing, offset: 1 << 40, sent: received + 1},
			{kind: kindPong, offset: 1 << 40, sent: received, end: endsOwn},
			{kind: kindFin, offset: received},
			{kind: kindClose, offset: received},
			{kind: kindReset},
			{kind: kindAccept, offset: 1 << 40},
		} {
			m.number, m.sender = s.number, forged.sender
			if s.take(forged.from, forged.at, &m) {
				t.Errorf("a message of kind %d from %s was taken", m.kind, forged.what)
			}
		}
	}
	answers(t, c, s)
}

// Only a reset from another process shows that another process has the peer's name.
func TestAResetOfThePeerDoesNotSayThatAnotherHasItsName(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "x")
	if !s.take(client.Name(), client.Address(), &message{kind: kindReset, number: s.number, sender: c.number}) {
		t.Fatal("the reset of the peer was not taken")
	}
	_, err := s.Read(make([]byte, 1))
	if !errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), errAnother.Error()) {
		t.Errorf("a stream that its peer reset: %v", err)
	}
}

// A stream discards a message that is longer than any valid message. The streams of the process
// go on.
func TestAMessageThatIsTooLongEndsNoStream(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "x")
	answers(t, c, s)
	for _, number := range []uint32{s.number, s.number + 1, 0} {
		err := c.h.port.Peer(server.Name()).SendDelivered(t.Context(), tagOf(kindData, number), make([]byte, mostBytes+1))
		if !errors.Is(err, weft.ErrTruncated) {
			t.Fatalf("a message of %d bytes: %v; expected that it is cut", mostBytes+1, err)
		}
	}
	answers(t, c, s)
}

// waiters waits until want calls of Accept wait.
func (h *host) waiters(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		h.owed.Lock()
		have := h.pump.patient
		h.owed.Unlock()
		switch {
		case have == want:
			return
		case time.Now().After(end):
			t.Fatalf("%d calls wait, expected %d", have, want)
		}
	}
}

// Two streams may arrive before the first of two waiting calls of Accept runs. Both calls must
// return.
func TestStreamsThatComeTogetherWakeAllCallsOfAccept(t *testing.T) {
	server, client := onSwitch(t)
	l, err := (&ListenConfig{Process: server, KeepAlive: -1}).Listen("x")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const waiting = 3
	accepted := make(chan error, waiting)
	for range waiting {
		go func() {
			c, err := l.Accept()
			if err == nil {
				defer c.Close()
			}
			accepted <- err
		}()
	}
	l.h.waiters(t, waiting)
	l.h.mu.Lock()
	for i := range uint32(waiting) {
		c := l.h.newConn(l.addr, Addr{client.Name(), fmt.Sprintf("#%d", i)}, l.cfg)
		c.opened(client.Address(), &message{kind: kindOpen, sender: 1000 + i})
		l.queue = append(l.queue, c)
	}
	l.came.Open() // a gate that is open already stays open, so several streams may open it only once
	l.h.mu.Unlock()
	for i := range waiting {
		select {
		case err := <-accepted:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d calls of Accept have returned, and %d streams came together", i, waiting, waiting)
		}
	}
}

// Close wakes all calls of Accept.
func TestCloseWakesAllCallsOfAccept(t *testing.T) {
	server, _ := onSwitch(t)
	l, err := Listen(server, "x")
	if err != nil {
		t.Fatal(err)
	}
	const waiting = 3
	ended := make(chan error, waiting)
	for range waiting {
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
	}
	l.h.waiters(t, waiting)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range waiting {
		select {
		case err := <-ended:
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d calls of Accept have returned", i, waiting)
		}
	}
}

// The peer of a stream that was never accepted may wait for an answer. Close must tell the peer
// that no answer will come.
func TestCloseTellsThePeersOfStreamsThatWereNotAccepted(t *testing.T) {
	server, client := onSwitch(t)
	l, err := (&ListenConfig{Process: server, KeepAlive: -1}).Listen("x")
	if err != nil {
		t.Fatal(err)
	}
	d := &Dialer{Process: client, KeepAlive: -1}
	conns := make([]net.Conn, 2)
	for i := range conns {
		if conns[i], err = d.DialContext(t.Context(), "weft", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for i, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("stream %d of a service that has ended: %v; expected a reset", i, err)
		}
	}
}

// A process answers messages that belong to no stream. A peer may send such messages without end
// and read no answers, so each queue of answers is bounded. A stream's own messages must still
// have room.
func TestAnswersToMessagesOfNoStreamAreBounded(t *testing.T) {
	p, _ := onSwitch(t)
	h, silent := &host{p: p, owes: p.Runtime().NewGate()}, weft.Name{App: "silent"}
	for i := range uint32(2 * mostStrays) {
		h.stray(silent, kindReset, i, 0, nil)
	}
	if n := len(h.strays); n != mostStrays {
		t.Errorf("%d answers wait for their lanes; expected %d", n, mostStrays)
	}
	ls := lanes{h: h, of: map[weft.Name]*lane{}, sweep: keptLanes}
	l := ls.lane(silent)
	l.held = true // its goroutine waits for the NIC
	for range 2 {
		for _, s := range h.strays {
			ls.put(owed{s: s})
		}
	}
	if n := len(l.waits); n != mostStrays {
		t.Errorf("%d answers wait in the lane of a silent peer; expected %d", n, mostStrays)
	}
	c := newConn(h, 1, Addr{}, Addr{Process: silent}, config{})
	ls.put(owed{c: c})
	if n := len(l.waits); n != mostStrays+1 {
		t.Errorf("%d entries wait with that of a stream; expected %d", n, mostStrays+1)
	}
}

// An event may report the end of a peer that lives. The peer answers, and the stream may then be
// silent as before.
func TestAStreamWhosePeerAnswersADoubtStaysOpen(t *testing.T) {
	server, client := onSwitch(t)
	c, s := dialled(t, server, client, "x")
	answers(t, c, s)
	heard := func() uint32 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.heardSum
	}
	before, at := heard(), time.Now().Add(time.Minute) // the peer has until then to answer
	c.doubt(server.Address(), at)
	for end := time.Now().Add(time.Minute); heard() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the peer does not answer")
		}
	}
	// The second time, nothing has arrived since the first.
	for _, later := range []time.Duration{2 * keepEvery, 6 * keepEvery} {
		c.keepAlive(at.Add(later))
	}
	answers(t, c, s)
}
