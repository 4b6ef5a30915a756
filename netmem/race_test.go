package netmem

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
)

// Calls of several goroutines go on while a server dies. What they and the goroutine that notices its death share, they share under the lock: the
// race detector looks at that.
func TestCallsGoOnWhileAServerDies(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	links, nodes, servers, refs := weft.NewSwitch(), []weft.Node(nil), []*Server(nil), []ServerRef(nil)
	for i := range uint32(3) {
		name := weft.Name{App: "memory", Index: i}
		p, err := weft.Open(ctx, weft.Config{Name: name, Switch: links})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		s, err := Serve(p, ServerConfig{Bytes: 256 * hsn.MaxPage})
		if err != nil {
			t.Fatal(err)
		}
		servers, refs, nodes = append(servers, s), append(refs, ServerRef{Name: name}), append(nodes, weft.Node{ID: p.NIC().ID(), Addr: p.NIC().Addr()})
	}
	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "client"}, Switch: links, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := NewClient(ctx, p, ClientConfig{Servers: refs, Copies: 2, Dead: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	servers[0].Close()
	var callers sync.WaitGroup
	for first := range uint64(4) {
		callers.Go(func() {
			for i := first; c.Stats().Deaths == 0 && ctx.Err() == nil; i += 4 {
				page := i % 200
				_ = c.WritePage(ctx, page, make([]byte, hsn.HalfPage))
				_ = c.ReadPage(ctx, page, make([]byte, hsn.HalfPage))
				_ = c.DiscardPage(ctx, page)
			}
		})
	}
	callers.Wait()
	if err := ctx.Err(); err != nil {
		t.Fatalf("no call has noticed the death of a server: %v", err)
	}
}
