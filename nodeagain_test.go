package weft_test

import (
	"context"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// A program that restarts at its address has a new NIC. The NIC has a new id unless the program's
// configuration sets the id. A NIC that knows only the address finds the new NIC, although the
// new NIC knows no other.
func TestANodeNamedByItsAddressMayBecomeAnotherNIC(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := weft.Name{App: "server"}
	open := func(cfg weft.Config) *weft.Process {
		t.Helper()
		p, err := weft.Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	first := open(weft.Config{Name: server})
	at := first.NIC().Addr()
	client := open(weft.Config{Name: weft.Name{App: "client"}, Nodes: []weft.Node{{Addr: at}}})
	for range 3 {
		if _, err := client.WaitName(ctx, server); err != nil {
			t.Fatal(err)
		}
		if err := client.Peer(server).SendDelivered(ctx, 1, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		first = open(weft.Config{Name: server, Link: weft.UDP(at)})
	}
}
