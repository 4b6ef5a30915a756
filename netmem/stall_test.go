package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/sim"
)

// A read ends with its context although the NIC of its own host stalls and has not sent the
// request. When the NIC continues, the client continues too.
func TestAReadEndsWithItsContextWhileItsOwnNICStandsStill(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, f *sim.Fabric, c *Client) error {
		f.Stall(0, 5*time.Second)
		begun := f.Elapsed()
		ctx, cancel := sp.Runtime().WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		err := c.ReadPage(ctx, 1, make([]byte, 4096))
		if took := f.Elapsed() - begun; !errors.Is(err, context.DeadlineExceeded) || took > 100*time.Millisecond {
			return fmt.Errorf("a read within 50 ms, while the NIC does nothing for 5 s, took %v: %w; expected %w", took, err, context.DeadlineExceeded)
		}
		if err := c.ReadPage(context.Background(), 1, make([]byte, 4096)); err != nil {
			return err
		}
		sleep(sp, time.Second)
		return ended(c)
	})
}
