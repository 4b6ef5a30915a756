package stream

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// A dial without an answer repeats its request. The peer may just have accepted and closed a
// stream for the first request. The repeated request then makes a second stream that has no other
// end. That stream must fail at once, and not only when keepalive asks its peer.
func TestAStreamThatARepeatedDialMakesFailsAtOnce(t *testing.T) {
	server, client := onSwitch(t)
	l, err := (&ListenConfig{Process: server, KeepAlive: -1}).Listen("x")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Dial(ctx, client, "a/0:x")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	l.h.open(&weft.Message{From: client.Name(), Addr: client.Address()}, &message{kind: kindOpen, sender: c.number, offset: readBuffer, rest: []byte("x")})
	second, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	_ = second.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a stream whose other end has another: %v; expected a reset", err)
	}
}
