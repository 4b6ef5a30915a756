package netmem

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A call whose answer is late retransmits its request while its client is being closed. The race
// detector checks whether the goroutine that waits for the sends reads memory that the call
// writes.
func TestACallRepeatsItsRequestWhileItsClientIsClosed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, c, _ := raced(ctx, t)
	k := c.ask(ctx, c.servers[0], record{op: opPageIn}, nil)
	c.end(k)
	c.port.close()
	var over atomic.Bool
	var seen sync.WaitGroup
	seen.Go(func() {
		for range 100 { // run does it once
			c.port.release()
		}
		over.Store(true)
	})
	for !over.Load() {
		c.port.mu.Lock()
		c.transmit(k)
		c.port.mu.Unlock()
	}
	seen.Wait()
}
