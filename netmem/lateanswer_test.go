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

// The answer to a client that was given up arrives at the next client of its process. The next
// client's own request to open is lost at that moment. The requests of both clients have the same
// number. If the next client accepted the answer as its own, its pages would belong to the first
// client, and the server would drop them when it hears of the next client.
func TestALateAnswerToAnEarlierClientIsNotTheNextOnes(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1, NICs: 2})
	server := weft.Name{App: "memory"}
	f.Serve(1, server.String(), func(sp *sim.Process) error {
		if _, err := Serve(sp.Weft(), ServerConfig{Bytes: 64 * hsn.MaxPage}); err != nil {
			return err
		}
		return sleep(sp, time.Hour)
	})
	f.Process(0, "client/0", func(sp *sim.Process) error {
		ctx, cfg := context.Background(), ClientConfig{Servers: []ServerRef{{Name: server}}}
		first, err := NewClient(ctx, sp.Weft(), cfg) // the others use its session
		if err != nil {
			return err
		}
		first.Close()
		const held = 10 * time.Millisecond
		begun := f.Elapsed()
		f.Clog(1, 0, held)
		within, cancel := sp.Runtime().WithTimeout(ctx, held/2)
		defer cancel()
		if _, err := NewClient(within, sp.Weft(), cfg); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("a client whose server's answer comes late: %w", err)
		}
		sleep(sp, begun+held-100*time.Microsecond-f.Elapsed())
		f.Narrow(0, 1, 1) // nothing gets through
		f.After(time.Millisecond, func() { f.Narrow(0, 1, 0) })
		c, err := NewClient(ctx, sp.Weft(), cfg)
		if err != nil {
			return err
		}
		defer c.Close()
		sleep(sp, held)
		page, got := make([]byte, hsn.HalfPage), make([]byte, hsn.HalfPage)
		page[0] = 1
		if err := c.WritePage(ctx, 0, page); err != nil {
			return err
		}
		sleep(sp, time.Second) // it asks meanwhile whether its server is there
		if err := c.ReadPage(ctx, 0, got); err != nil || got[0] != page[0] {
			return fmt.Errorf("a page that was acknowledged is read as %d: %w", got[0], err)
		}
		if st := c.Stats(); st.Restarts != 0 {
			return fmt.Errorf("%d restarts of a server that has not restarted", st.Restarts)
		}
		return nil
	})
	if err := f.Run(time.Minute); err != nil {
		t.Error(err)
	}
}
