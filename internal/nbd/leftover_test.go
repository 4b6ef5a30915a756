package nbd

import (
	"net"
	"testing"
	"time"
)

// Each silent user that gives way frees its place, and so does each user that ends.
func TestUsersThatGaveWayTakeNoPlaces(t *testing.T) {
	s, err := New(Config{Device: newMemory(4096), Clients: 1})
	if err != nil {
		t.Fatal(err)
	}
	var last *client
	for range 5 {
		next := connect(t, s)
		next.begin(false) // the one before gives way to it
		if last != nil {
			if err := <-last.ended; err != errGaveWay {
				t.Fatalf("a silent user ends with %v; expected %v", err, errGaveWay)
			}
		}
		last = next
	}
	last.finish()
	for range 2 { // there is one place, and no user has it
		c := connect(t, s)
		c.begin(false)
		c.request(0, cmdFlush, 1, 0, 0)
		c.simple("flush", 0, 1)
		c.finish()
	}
	if s.users != 0 || s.silent.Len() != 0 || s.newcomers.Len() != 0 {
		t.Errorf("%d users, %d of them silent, and %d newcomers are left; expected none",
			s.users, s.silent.Len(), s.newcomers.Len())
	}
}

// A server forgets each connection that has ended, for whatever reason.
func TestAServerKeepsNothingOfConnectionsThatEnded(t *testing.T) {
	s, err := New(Config{Device: newMemory(4096)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context(), l) }()
	for _, leave := range []func(c *client){
		func(c *client) {},
		func(c *client) { c.greet(5) },
		func(c *client) { c.begin(false) },
		func(c *client) { c.begin(true); c.request(0, cmdDisconnect, 0, 0, 0) },
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		leave(&client{t, conn, nil})
		conn.Close()
	}
	left := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) + s.users + s.silent.Len() + s.newcomers.Len()
	}
	for deadline := time.Now().Add(time.Minute); s.Counts().Accepted < 4 || left() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections, users and newcomers are left of %+v; expected none", left(), s.Counts())
		}
	}
	l.Close()
	if err := <-served; err == nil {
		t.Error("a server whose listener ended says nothing of it")
	}
}
