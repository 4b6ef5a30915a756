package netmem

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
)

// A call whose answer is late repeats its request while its client is being closed. The race detector looks whether the goroutine that sees off what was sent
// looks at what the call writes.
func TestACallRepeatsItsRequestWhileItsClientIsClosed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	links, names := weft.NewSwitch(), [2]weft.Name{{App: "memory"}, {App: "client"}}
	var p [2]*weft.Process
	var nodes []weft.Node
	for i := range p {
		var err error
		if p[i], err = weft.Open(ctx, weft.Config{Name: names[i], Switch: links, Nodes: nodes}); err != nil {
			t.Fatal(err)
		}
		defer p[i].Close()
		nodes = append(nodes, weft.Node{ID: p[i].NIC().ID(), Addr: p[i].NIC().Addr()})
	}
	if _, err := Serve(p[0], ServerConfig{Bytes: 16 * hsn.MaxPage}); err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(ctx, p[1], ClientConfig{Servers: []ServerRef{{Name: names[0]}}, Dead: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	k := c.ask(ctx, c.servers[0], record{op: opPageIn}, nil)
	c.end(k)
	c.port.close()
	var over atomic.Bool
	var seen sync.WaitGroup
	seen.Go(func() {
		for range 100 { // run does it once
			c.port.release()
		}
		over.Store(true)
	})
	for !over.Load() {
		c.port.mu.Lock()
		c.transmit(k)
		c.port.mu.Unlock()
	}
	seen.Wait()
	c.Close()
}
