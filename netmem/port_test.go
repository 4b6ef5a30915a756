package netmem

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// What waits for a server reads why it serves no more, and not that a goroutine of the server's was stopped for that. The port is busy
// while it is closed, so that the one that closes it and the goroutine that ends have to wait for its lock, and either may have it first.
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
