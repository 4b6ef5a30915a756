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

// The client is closed while the NIC has the request of a write and has not sent it. The write
// fails, and the caller uses the memory of the page for other data. The NIC must not send this
// other data.
func TestThePageOfAWriteThatEndsWithItsClientIsTheCallersThen(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, f *sim.Fabric, c *Client) error {
		f.Stall(0, time.Second)
		f.After(time.Millisecond, func() { sp.Start("closer", func(*sim.Process) error { c.Close(); return nil }) })
		page := make([]byte, hsn.HalfPage)
		if err := c.WritePage(context.Background(), 1, page); !errors.Is(err, weft.ErrClosed) {
			return fmt.Errorf("a write under way when its client was closed: %w; expected %w", err, weft.ErrClosed)
		}
		page[0] = 1
		sleep(sp, 10*time.Second)
		st, err := Stat(context.Background(), c.p, c.servers[0].Name)
		if st.Damaged > 0 {
			return fmt.Errorf("pages that the server has had and were damaged: %d; expected none", st.Damaged)
		}
		return err
	})
}
