package stream

import (
	"context"
	"errors"
	"syscall"
	"testing"
)

// A process may dial without success all its life, so a failed Dial must leave no stream behind.
func TestADialThatFailsLeavesNoStream(t *testing.T) {
	server, client := onSwitch(t)
	l, err := Listen(server, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, dial := range []struct {
		ctx     context.Context
		address string
		want    error
	}{
		{t.Context(), "a/0:nothing", syscall.ECONNREFUSED},
		{t.Context(), "nobody/0:x", syscall.ECONNREFUSED},
		{ended, "a/0:x", context.Canceled},
	} {
		if _, err := Dial(dial.ctx, client, dial.address); !errors.Is(err, dial.want) {
			t.Errorf("%s: %v; expected %v", dial.address, err, dial.want)
		}
	}
	h, err := hostOf(client)
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.conns); n != 0 {
		t.Errorf("%d streams are left of dials that failed", n)
	}
}
