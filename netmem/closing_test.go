package netmem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/sim"
)

// Calls that wait without a deadline of their own end with their client: those whose server is silent, and those whose servers are down.
func TestCallsThatWaitEndWithTheirClient(t *testing.T) {
	page := make([]byte, 4096)
	calls := map[string]func(c *Client, page uint64) error{
		"read":  func(c *Client, n uint64) error { return c.ReadPage(context.Background(), n%16, make([]byte, 4096)) },
		"write": func(c *Client, n uint64) error { return c.WritePage(context.Background(), n, page) },
	}
	for what, call := range calls {
		for _, down := range []time.Duration{0, time.Second} { // before the calls begin
			withClient(t, ClientConfig{}, func(sp *sim.Process, f *sim.Fabric, c *Client) error {
				f.StopNIC(1)
				sp.Sleep(down)
				f.After(100*time.Millisecond, func() { sp.Go("closer", func(*sim.Process) error { c.Close(); return nil }) })
				failed := atOnce(sp, c, func(page uint64) error { return call(c, page) })
				if len(failed) != crowd+1 {
					return fmt.Errorf("of %d calls (%s) under way when their client was closed, %d failed; expected all", crowd, what, len(failed)-1)
				}
				for _, err := range failed[:crowd] {
					if !errors.Is(err, weft.ErrClosed) {
						return fmt.Errorf("a call (%s) under way when its client was closed: %w; expected %w", what, err, weft.ErrClosed)
					}
				}
				if err := call(c, 3); !errors.Is(err, weft.ErrClosed) || !strings.HasPrefix(err.Error(), "netmem: "+what+" page 3: ") {
					return fmt.Errorf("a call (%s) of page 3 after its client was closed: %w; expected %w, and what was wanted", what, err, weft.ErrClosed)
				}
				return nil
			})
		}
	}
}

func TestAClientThatIsClosedNeitherTakesAServerNorLeavesOne(t *testing.T) {
	withClient(t, ClientConfig{}, func(_ *sim.Process, _ *sim.Fabric, c *Client) error {
		c.Close()
		for _, name := range []weft.Name{{App: "memory"}, {App: "other"}} {
			add, remove := c.AddServer(context.Background(), ServerRef{Name: name}), c.RemoveServer(context.Background(), name)
			if !errors.Is(add, weft.ErrClosed) || !errors.Is(remove, weft.ErrClosed) {
				return fmt.Errorf("%v: adding says %v, removing %v; want that the client is closed", name, add, remove)
			}
		}
		return nil
	})
}
