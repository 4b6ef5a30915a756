package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// TestNoCallerEndsTheServer has the server of the example serve a caller that has given up, a message that is no call and a question that
// is too long, and then one that is in order.
func TestNoCallerEndsTheServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "letters"}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := server.NIC().Attach(ctx, weft.Name{App: "client"})
	if err != nil {
		t.Fatal(err)
	}
	given, giveUp := context.WithCancel(ctx)
	called := make(chan error, 1)
	go func() {
		_, err := client.Call(given, server.Name(), upper, []byte("warp"), nil)
		called <- err
	}()
	if _, err := server.Probe(ctx, client.Name(), upper); err != nil {
		t.Fatal(err)
	}
	giveUp()
	if err := <-called; !errors.Is(err, context.Canceled) {
		t.Fatalf("the call that is given up ends with %v", err)
	}
	if err := client.Send(ctx, server.Name(), lower, []byte("WEFT")); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(ctx, server) }()
	reply := make([]byte, 64)
	for _, question := range []struct{ text, want string }{{string(make([]byte, 65)), ""}, {"warp", "WARP"}} {
		answered := make(chan error, 1)
		go func() {
			m, err := client.Call(ctx, server.Name(), upper, []byte(question.text), reply)
			if got := string(reply[:m.Len]); err == nil && got != question.want {
				t.Errorf("of %d bytes the reply is %q; expected %q", len(question.text), got, question.want)
			}
			answered <- err
		}()
		select {
		case err := <-served:
			t.Fatalf("the server has ended: %v", err)
		case err := <-answered:
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(server.Close(), <-served); err != nil {
		t.Fatal(err)
	}
}
