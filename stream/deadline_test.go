package stream_test

import (
	"net"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/stream"
)

// Behind Close a deadline fails with one error, of package net's type, and in one line.
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
