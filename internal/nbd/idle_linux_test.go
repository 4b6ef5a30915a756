package nbd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// idleServer serves a device at a TCP address of this host. dial connects to it.
func idleServer(t *testing.T) (s *Server, dial func() net.Conn) {
	t.Helper()
	s, err := New(Config{Device: newMemory(4096)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// hello reads the greeting and, with begin, finishes the handshake. It does not fail the test,
// because an idle client may have given way.
func hello(c net.Conn, begin bool) error {
	if _, err := io.ReadFull(c, make([]byte, 18)); err != nil || !begin {
		return err
	}
	be := binary.BigEndian
	b := be.AppendUint64(be.AppendUint32(nil, flagFixedNewstyle|flagNoZeroes), magicOption)
	b = be.AppendUint32(be.AppendUint32(b, uint32(optGo)), 6)
	if _, err := c.Write(append(b, make([]byte, 6)...)); err != nil {
		return err
	}
	// There are two answers: one with the size, in 12 bytes, and an acknowledgement.
	answers := make([]byte, 20+12+20)
	if _, err := io.ReadFull(c, answers); err != nil {
		return err
	}
	if a := answer(be.Uint32(answers[32+12:])); a != repAck {
		return fmt.Errorf("GO is answered by %#x", uint32(a))
	}
	return nil
}

// readOne reads a byte of the device.
func readOne(c net.Conn) error {
	if _, err := c.Write(wire(0, cmdRead, 9, 0, 1)); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, simpleLen+1))
	return err
}

// S7: in an earlier version, 64 clients that sent nothing kept all others out for 30 s.
func TestS7ClientsThatSayNothingKeepNoneOut(t *testing.T) {
	s, dial := idleServer(t)
	for i := range 64 {
		if err := hello(dial(), false); err != nil {
			t.Fatalf("idle client %d: %v", i, err)
		}
	}
	real := dial()
	if err := hello(real, true); err != nil {
		t.Fatalf("behind 64 idle clients: %v", err)
	}
	if err := readOne(real); err != nil {
		t.Errorf("behind 64 idle clients: %v", err)
	}
	if s.Counts().GaveWay == 0 {
		t.Errorf("no idle client is counted that gave way: %+v", s.Counts())
	}
}

// S7: in an earlier version, 64 clients that finished their handshake and sent no request kept
// all others out for an unlimited time.
func TestS7ClientsThatUseNothingKeepNoneOut(t *testing.T) {
	s, dial := idleServer(t)
	busy := dial()
	if err := hello(busy, true); err != nil {
		t.Fatal(err)
	}
	if err := readOne(busy); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := hello(dial(), true); err != nil {
			t.Fatalf("silent client %d: %v", i, err)
		}
	}
	real := dial()
	if err := hello(real, true); err != nil {
		t.Fatalf("behind 200 silent clients: %v", err)
	}
	for name, c := range map[string]net.Conn{"a client that came behind them": real, "a client that was there before": busy} {
		if err := readOne(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for deadline := time.Now().Add(time.Minute); s.Counts().GaveWay < 200-64 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if n := s.Counts().GaveWay; n < 200-64 {
		t.Errorf("%d silent clients are counted that gave way; want at least %d", n, 200-64)
	}
}

// S7: 1,000 concurrent connections stay within the limit of newcomers.
func TestS7ThousandIdleClientsAreBounded(t *testing.T) {
	s, dial := idleServer(t)
	for range 1000 {
		dial()
	}
	for deadline := time.Now().Add(time.Minute); s.Counts().Accepted < 1000 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if n := s.newcomers.Len(); n > 64 {
		t.Errorf("%d newcomers are there; want at most 64", n)
	}
	real := dial()
	if err := hello(real, true); err != nil {
		t.Fatalf("behind 1000 idle clients: %v", err)
	}
	if err := readOne(real); err != nil {
		t.Error(err)
	}
}

// The deadline of the handshake also ends a client that keeps sending options.
func TestAHandshakeEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Device: newMemory(4096)})
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		defer here.Close()
		ended := make(chan error, 1)
		go func() { ended <- s.ServeConn(t.Context(), there) }()
		start := time.Now()
		c := &client{t, here, nil}
		c.greet(flagFixedNewstyle)
		list := binary.BigEndian.AppendUint64(nil, magicOption)
		list = append(list, 0, 0, 0, byte(optList), 0, 0, 0, 0)
		for err == nil {
			time.Sleep(100 * time.Millisecond)
			if _, err = here.Write(list); err == nil {
				_, err = io.ReadFull(here, make([]byte, 20+4+20))
			}
		}
		if took := time.Since(start); took < limits.HandshakeWithin || took > limits.HandshakeWithin+time.Second {
			t.Errorf("a handshake without an end lasted %v; want %v", took, limits.HandshakeWithin)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || s.Counts().Failed != 1 {
			t.Errorf("it ended with %v, and is counted in %+v", err, s.Counts())
		}
	})
}
