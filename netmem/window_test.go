package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/sim"
)

// crowd is the number of concurrent calls: many more than a client has buffers for.
const crowd = 16 * portBuffers

// atOnce calls do for one page in each of a crowd of goroutines, and returns their errors.
func atOnce(sp *sim.Process, c *Client, do func(page uint64) error) (failed []error) {
	left := crowd
	for i := range uint64(crowd) {
		sp.Start("caller", func(*sim.Process) error {
			if err := do(i); err != nil {
				failed = append(failed, err)
			}
			left--
			c.p.Runtime().Wake()
			return nil
		})
	}
	return append(failed, c.p.Runtime().WaitUntil(context.Background(), func() bool { return left == 0 }))
}

// ended returns an error if a client has left requests with its servers, or waiting requests.
// Requests to open do not count.
func ended(c *Client) error {
	known := 0
	for _, k := range c.calls {
		if k.record.op != opOpen {
			known++
		}
	}
	for _, s := range c.servers {
		if s.window.with != 0 || len(s.window.waits) != 0 || known != 0 {
			return fmt.Errorf("server %v has %d requests, %d wait, and %d calls are known, when none is under way", s.Name, s.window.with, len(s.window.waits), known)
		}
	}
	return nil
}

func TestACrowdOfCallsLosesNoAnswerForWantOfBuffers(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) error {
		err := errors.Join(atOnce(sp, c, func(page uint64) error { return c.WritePage(context.Background(), page, make([]byte, 4096)) })...)
		err = errors.Join(append(atOnce(sp, c, func(page uint64) error { return c.ReadPage(context.Background(), page, make([]byte, 4096)) }), err)...)
		if st := c.Stats(); st.Repeated != 0 || st.Waited < 2*(crowd-portBuffers) || st.Deaths != 0 {
			return fmt.Errorf("%d requests were repeated, %d had waited, %d servers were taken for dead; expected no repetition, and all to wait that there were no buffers for: %w", st.Repeated, st.Waited, st.Deaths, err)
		}
		return errors.Join(err, ended(c))
	})
}

func TestRequestsThatWaitEndWithTheirContextOrTheirServer(t *testing.T) {
	read := func(ctx context.Context, c *Client) func(page uint64) error {
		return func(page uint64) error { return c.ReadPage(ctx, page%16, make([]byte, 4096)) }
	}
	withClient(t, ClientConfig{window: 1}, func(sp *sim.Process, f *sim.Fabric, c *Client) error {
		f.Stall(1, 100*time.Millisecond) // shorter than Dead
		ctx, cancel := sp.Runtime().WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		failed := atOnce(sp, c, read(ctx, c))
		if len(failed) != crowd+1 || !errors.Is(failed[0], context.DeadlineExceeded) {
			return fmt.Errorf("of %d reads within 20 ms from a server that does nothing for 100 ms, %d failed: %v", crowd, len(failed)-1, failed[0])
		}
		if err := errors.Join(atOnce(sp, c, read(context.Background(), c))...); err != nil {
			return err
		}
		return ended(c)
	})
	withClient(t, ClientConfig{window: 1}, func(sp *sim.Process, f *sim.Fabric, c *Client) error {
		f.StopNIC(1)
		failed := atOnce(sp, c, func(page uint64) error {
			ctx, cancel := sp.Runtime().WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			return read(ctx, c)(page)
		})
		if len(failed) != crowd+1 || c.Stats().Deaths != 1 {
			return fmt.Errorf("of %d reads from a server that has died %d failed, and %d deaths were noticed", crowd, len(failed)-1, c.Stats().Deaths)
		}
		return ended(c)
	})
}
