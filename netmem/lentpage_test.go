package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
	"github.com/weftnet/weft/sim"
)

// The NIC has the request of a write, and has not sent it, when the client is closed. The write fails, and its caller uses the memory of the page for other things: what
// the NIC sends then is none of them.
func TestThePageOfAWriteThatEndsWithItsClientIsTheCallersThen(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	server := weft.Name{App: "memory"}
	var s *Server
	f.Serve(1, server.String(), func(sp *sim.Process) (err error) {
		if s, err = Serve(sp.Weft(), ServerConfig{Bytes: 64 * hsn.MaxPage}); err != nil {
			return err
		}
		return sp.Weft().Sleep(context.Background(), time.Hour)
	})
	f.Process(0, "client/0", func(sp *sim.Process) error {
		c, err := NewClient(context.Background(), sp.Weft(), ClientConfig{Servers: []ServerRef{{Name: server}}})
		if err != nil {
			return err
		}
		f.Stall(0, time.Second)
		f.After(time.Millisecond, func() { sp.Go("closer", func(*sim.Process) error { c.Close(); return nil }) })
		page := make([]byte, hsn.HalfPage)
		if err := c.WritePage(context.Background(), 1, page); !errors.Is(err, weft.ErrClosed) {
			return fmt.Errorf("a write under way when its client was closed: %w; expected %w", err, weft.ErrClosed)
		}
		page[0] = 1
		sp.Sleep(10 * time.Second)
		if n := s.Stats().Damaged; n > 0 {
			return fmt.Errorf("pages that the server has had and were damaged: %d; expected none", n)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}
