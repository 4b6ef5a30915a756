package stream

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// A dial asks again when it has no answer, and what it has asked for first may have been accepted, and closed, just then. The second stream that its repeated
// wish makes has no other end: it fails at once, and not when its peer is asked whether it is there.
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
