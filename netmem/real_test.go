package netmem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/netmem"
)

// The same works in real time over UDP. Packets are short there, so pages travel in pieces below
// the driver.
func TestPagesGoOverUDP(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(app string, nodes ...weft.Node) *weft.Process {
		p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: app}, Link: weft.UDP("127.0.0.1:0"), Nodes: nodes, Faults: &weft.Faults{Loss: 0.01}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	a := open("a")
	b := open("b", weft.Node{ID: a.NIC().ID(), Addr: a.NIC().Addr()})
	c := open("c", weft.Node{ID: a.NIC().ID(), Addr: a.NIC().Addr()}, weft.Node{ID: b.NIC().ID(), Addr: b.NIC().Addr()})
	var refs []netmem.ServerRef
	for _, p := range []*weft.Process{a, b} {
		s, err := netmem.Serve(p, netmem.ServerConfig{Bytes: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() { waiting <- s.Wait(ctx) }()
		defer func() {
			s.Close()
			if err := <-waiting; !errors.Is(err, weft.ErrClosed) {
				t.Errorf("a server that was closed had %v", err)
			}
		}()
		refs = append(refs, netmem.ServerRef{Name: p.Name()})
	}
	for volume, size := range []int{4096, 8192} {
		client, err := netmem.NewClient(ctx, c, netmem.ClientConfig{Servers: refs, Copies: 2, PageBytes: size, Volume: uint64(volume)})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		errs := make(chan error, 4)
		for k := range uint64(4) {
			wg.Go(func() {
				buf, got := make([]byte, size), make([]byte, size)
				for i := range uint64(50) {
					n := k<<32 | i
					fill(buf, n, uint64(size))
					err := client.WritePage(ctx, n, buf)
					if err == nil {
						err = client.ReadPage(ctx, n, got)
					}
					if err != nil || !bytes.Equal(got, buf) {
						errs <- fmt.Errorf("page %d of %d bytes: %w, or other bytes", n, size, err)
						return
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			t.Error(err)
		}
		client.Close()
	}
}
