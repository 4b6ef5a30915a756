package netmem

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/sim"
)

// A caller that waits for a server gets the reason for the server's end, and not the error of an
// internal goroutine that was stopped for it. The port is busy while it is closed. So the closer
// and the ending goroutine both wait for the port's lock, and either may get it first.
func TestAServerThatIsClosedSaysSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "a"}, Link: weft.UDP("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 100 {
		s, err := Serve(p, ServerConfig{Bytes: 8192})
		if err != nil {
			t.Fatal(err)
		}
		waiting, closed := make(chan error, 1), make(chan struct{})
		go func() { waiting <- s.Wait(ctx) }()
		s.port.mu.Lock()
		go func() {
			defer close(closed)
			s.Close()
		}()
		time.Sleep(time.Millisecond)
		s.port.mu.Unlock()
		<-closed
		if err := <-waiting; !errors.Is(err, weft.ErrClosed) {
			t.Fatalf("Wait of a server that was closed said: %v", err)
		}
	}
}

// A process may have 1024 regions. After more clients and servers than that, one after another,
// the process has all its regions back.
func TestClientsAndServersThatAreClosedGiveTheirMemoryBack(t *testing.T) {
	const lives = 1100
	lone(t, ServerConfig{Bytes: 64 * hsn.MaxPage}, map[string]func(sp *sim.Process, s *Server) error{
		"client/0": func(sp *sim.Process, _ *Server) error {
			for i := range lives {
				c, err := open(sp, 1)
				if err != nil {
					return fmt.Errorf("client %d: %w", i, err)
				}
				c.Close()
			}
			return nil
		},
		"server/0": func(sp *sim.Process, _ *Server) error {
			for i := range lives {
				s, err := Serve(sp.Weft(), ServerConfig{Bytes: hsn.MaxPage})
				if err != nil {
					return fmt.Errorf("server %d: %w", i, err)
				}
				s.Close()
				sleep(sp, 10*time.Millisecond)
			}
			return nil
		},
	})
}

// A client may be closed while its server is silent. The request to leave gets no answer, and the
// memory goes back all the same.
func TestAClientThatNoServerHearsLeavingGivesItsMemoryBack(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, f *sim.Fabric, c *Client) error {
		f.StopNIC(1)
		c.Close()
		sleep(sp, 2*releasing)
		c.port.mu.Lock()
		defer c.port.mu.Unlock()
		if !c.port.returned {
			t.Error("the memory of a closed client is not given back")
		}
		return nil
	})
}

// While a call looks at a page, the page stays unchanged until the call has ended, although the
// client is closed meanwhile and its process makes another one.
func TestAPageThatIsBeingLookedAtStaysWhileItsClientIsClosed(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) error {
		seen := func() bool {
			c.port.mu.Lock()
			defer c.port.mu.Unlock()
			return c.port.returned
		}
		err := c.ViewPage(context.Background(), 1, func([]byte) {
			c.Close()
			sleep(sp, 100*time.Millisecond)
			if seen() {
				t.Error("the memory of a page is given back while a call looks at it")
			}
		})
		if err != nil {
			return err
		}
		sleep(sp, 100*time.Millisecond)
		if !seen() {
			t.Error("the memory of a closed client is not given back behind its last call")
		}
		return nil
	})
}

// A program may close its process instead of its server or client. Then nothing of the server or
// the client remains: no goroutine, and no spill file, which would take space on the disk.
func TestServersAndClientsEndWithTheirProcess(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	link := weft.NewSwitch().Link()
	server, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "server"}, Link: link})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := weft.Open(ctx, weft.Config{Name: weft.Name{App: "client"}, Link: link, Nodes: []weft.Node{{ID: server.NIC().ID(), Addr: server.NIC().Addr()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s, err := Serve(server, ServerConfig{Bytes: 8 * hsn.MaxPage, Spill: filepath.Join(t.TempDir(), "spill")})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(ctx, client, ClientConfig{Servers: []ServerRef{{Name: server.Name()}}, Dead: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	server.Close()
	for what, left := range map[string]func() bool{
		"goroutines of the client": func() bool { return c.port.ctx.Err() == nil },
		"goroutines of the server": func() bool { return s.port.ctx.Err() == nil },
		"the spill file":           func() bool { return s.store.spill.f != nil },
	} {
		for is := true; is; time.Sleep(time.Millisecond) {
			s.port.mu.Lock()
			is = left()
			s.port.mu.Unlock()
			if is && ctx.Err() != nil {
				t.Fatalf("%s: left a minute after the end of the process", what)
			}
		}
	}
}
