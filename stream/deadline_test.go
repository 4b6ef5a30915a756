package stream_test

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// After Close, setting a deadline fails with one error of package net's type, in one line.
func TestADeadlineBehindCloseFailsAsOfTCP(t *testing.T) {
	a, b := pair(t, weft.Config{})
	l, err := stream.Listen(a, "x")
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := joined(l, &stream.Dialer{Process: b})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for name, set := range map[string]func(time.Time) error{"SetDeadline": c.SetDeadline, "SetReadDeadline": c.SetReadDeadline, "SetWriteDeadline": c.SetWriteDeadline} {
		err := set(time.Time{})
		if of, ok := err.(*net.OpError); !ok || of.Err != net.ErrClosed || of.Op != "set" || of.Source != nil || of.Addr != c.LocalAddr() {
			t.Errorf("%s: %T: %v; expected %v of this end", name, err, err, net.ErrClosed)
		}
	}
}

// If a deadline has passed, each call that could wait fails with it, even if the call would also
// fail for another reason. A Read into an empty buffer does not fail.
func TestADeadlineThatHasPassedComesFirstAsOfTCP(t *testing.T) {
	a, b := pair(t, weft.Config{})
	l, err := stream.Listen(a, "x")
	if err != nil {
		t.Fatal(err)
	}
	c, s, err := joined(l, &stream.Dialer{Process: b})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("a Read of nothing: %d, %v", n, err)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	s.(*stream.Conn).Abort()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("a Read of a stream that was aborted: %v", err)
	}
	if err := c.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func([]byte) (int, error){"Read": c.Read, "Write": c.Write} {
		if _, err := call(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a %s of a stream that has failed: %v; expected %v", name, err, os.ErrDeadlineExceeded)
		}
	}
}
