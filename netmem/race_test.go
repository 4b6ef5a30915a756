package netmem

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
)

// raced starts a client of three servers, each with its own NIC.
func raced(ctx context.Context, t *testing.T) (p *weft.Process, c *Client, servers []*Server) {
	t.Helper()
	links, nodes, refs := weft.NewSwitch(), []weft.Node(nil), []ServerRef(nil)
	for i := range uint32(3) {
		name := weft.Name{App: "memory", Index: i}
		p, err := weft.Open(ctx, weft.Config{Name: name, Link: links.Link()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		s, err := Serve(p, ServerConfig{Bytes: 256 * hsn.MaxPage})
		if err != nil {
			t.Fatal(err)
		}
		servers, refs, nodes = append(servers, s), append(refs, ServerRef{Name: name}), append(nodes, weft.Node{ID: p.NIC().ID(), Addr: p.NIC().Addr()})
	}
	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "client"}, Link: links.Link(), Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	cfg := ClientConfig{Servers: refs, Copies: 2, Dead: 50 * time.Millisecond}
	// A busy machine delays the servers longer.
	for c, err = NewClient(ctx, p, cfg); errors.Is(err, errSilent) && ctx.Err() == nil; {
		c, err = NewClient(ctx, p, cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return p, c, servers
}

// Calls of several goroutines continue while a server dies. They share state with the goroutine
// that notices the death. The race detector checks that all of them access this state under the
// lock.
func TestCallsGoOnWhileAServerDies(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, c, servers := raced(ctx, t)
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

// Bulk reads run concurrently with writers until their context or their process ends. After that,
// the buffers belong to the reader again, as the race detector checks.
func TestTheMemoryOfManyPagesIsTheReadersWhenAllHaveEnded(t *testing.T) {
	for _, ends := range []string{"context", "process"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		p, c, _ := raced(ctx, t)
		reading, stop := context.WithCancel(ctx)
		for i := range uint64(50) {
			if err := c.WritePage(ctx, i, make([]byte, hsn.HalfPage)); err != nil {
				t.Fatal(err)
			}
		}
		var readers, writers sync.WaitGroup
		for k := range 3 {
			readers.Go(func() {
				var bufs [][]byte
				i, under := k, 0
				why := c.ReadPages(reading, 16, func() (uint64, []byte, bool) {
					buf := make([]byte, hsn.HalfPage)
					bufs = append(bufs, buf)
					i++
					under++
					return uint64(i % 50), buf, true
				}, func(uint64, []byte, error) { under-- })
				if why == nil || under != 0 {
					t.Errorf("the %s has ended: %v, %d are under way", ends, why, under)
				}
				for _, buf := range bufs {
					clear(buf)
				}
			})
		}
		writers.Go(func() {
			for i := uint64(0); reading.Err() == nil; i++ {
				_ = c.WritePage(reading, i%50, make([]byte, hsn.HalfPage))
			}
		})
		time.Sleep(100 * time.Millisecond)
		if ends == "process" {
			_ = p.Close()
		} else {
			stop()
		}
		readers.Wait()
		stop()
		writers.Wait()
		cancel()
	}
}
