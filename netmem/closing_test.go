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

// Calls that wait without a deadline end with their client: calls to a silent server, and calls
// whose servers are down.
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
				sleep(sp, down)
				f.After(100*time.Millisecond, func() { sp.Start("closer", func(*sim.Process) error { c.Close(); return nil }) })
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

// Pages that were never written need no server. The calls check nevertheless whether the client
// still exists.
func TestCallsForWhatWasNeverWrittenEndWithTheirClient(t *testing.T) {
	for how, end := range map[string]func(sp *sim.Process, v *Volume) error{
		"closed":            func(_ *sim.Process, v *Volume) error { v.Close(); return nil },
		"without a process": func(sp *sim.Process, _ *Volume) error { return sp.Weft().Close() },
	} {
		f := sim.New(sim.Config{Seed: 1, NICs: 2})
		name := weft.Name{App: "memory"}
		f.Serve(1, name.String(), func(sp *sim.Process) error {
			if _, err := Serve(sp.Weft(), ServerConfig{Bytes: 64 * 4096}); err != nil {
				return err
			}
			return sleep(sp, time.Hour)
		})
		f.Process(0, "client/0", func(sp *sim.Process) error {
			ctx := context.Background()
			v, err := Open(ctx, sp.Weft(), VolumeConfig{ClientConfig: ClientConfig{Servers: []ServerRef{{Name: name}}}, Bytes: 64 * 4096})
			if err != nil {
				return err
			}
			b := make([]byte, 3*4096)
			calls := map[string]func() error{
				"a read":                  func() error { _, err := v.ReadAt(b[:4096], 0); return err },
				"a read of several pages": func() error { _, err := v.ReadAt(b, 0); return err },
				"a discard":               func() error { return v.Discard(ctx, 0, 3*4096) },
				"a discard in a page":     func() error { return v.Discard(ctx, 1, 2) },
				"a look":                  func() error { return v.Written(0, 4096, func(int64, int64, bool) bool { return true }) },
				"DiscardPage":             func() error { return v.c.DiscardPage(ctx, 5) },
			}
			for what, call := range calls {
				if err := call(); err != nil {
					return fmt.Errorf("%s: %w", what, err)
				}
			}
			if err := end(sp, v); err != nil {
				return err
			}
			for v.c.Err() == nil {
				sleep(sp, time.Millisecond)
			}
			for what, call := range calls {
				if err := call(); !errors.Is(err, weft.ErrClosed) {
					return fmt.Errorf("%s of a volume that is %s: %w; expected %w", what, how, err, weft.ErrClosed)
				}
			}
			return nil
		})
		if err := f.Run(time.Minute); err != nil {
			t.Error(err)
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
