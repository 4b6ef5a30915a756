package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/sim"
)

// settled waits until the repair has no page to look at.
func settled(sp *sim.Process, c *Client) error {
	ctx, cancel := sp.Runtime().WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for c.toLookAt() > 0 {
		if err := sp.Runtime().Sleep(ctx, attendEvery); err != nil {
			return fmt.Errorf("the repair has %d pages to look at: %w", c.toLookAt(), err)
		}
	}
	return nil
}

func (c *Client) toLookAt() int {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	return len(c.look.pages)
}

// A repair looks at pages that a call may have changed, and not at pages that were only read.
func TestAPageThatWasReadIsNothingForARepair(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) error {
		ctx, buf := context.Background(), make([]byte, 4096)
		if err := settled(sp, c); err != nil {
			return err
		}
		_, err := asking(c, 8, 16, func(_ uint64, failed error) {
			if failed != nil {
				t.Error(failed)
			}
		})
		err = errors.Join(err, c.ReadPage(ctx, 3, buf))
		if n := c.toLookAt(); n > 0 {
			t.Errorf("%d pages that were read are to be looked at", n)
		}
		err = errors.Join(err, c.WritePage(ctx, 3, buf))
		if c.toLookAt() != 1 {
			t.Errorf("%d pages are to be looked at after one was written", c.toLookAt())
		}
		return err
	})
}

// If a read doubts a copy of a page, a repair looks at the page.
func TestAPageThatAReadDoubtsIsLookedAt(t *testing.T) {
	withClient(t, ClientConfig{}, func(sp *sim.Process, _ *sim.Fabric, c *Client) error {
		if err := settled(sp, c); err != nil {
			return err
		}
		c.port.mu.Lock()
		c.pages[3].crc++ // so that the answer is not the page
		c.port.mu.Unlock()
		if err := c.ReadPage(context.Background(), 3, make([]byte, 4096)); !errors.Is(err, ErrLost) {
			t.Errorf("a page that no server has as it was written: %v", err)
		}
		if c.toLookAt() != 1 {
			t.Errorf("%d pages are to be looked at after one was doubted", c.toLookAt())
		}
		return nil
	})
}
