package netmem

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/hsn"
)

// A lone call takes over from run while run may still look at the next receive. The call begins
// other receives instead. The race detector checks that the receive of run is not among them.
func TestACallThatTakesOverLeavesAloneWhatRunLooksAt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, c, _ := raced(ctx, t)
	for i := range uint64(8) {
		if err := c.WritePage(ctx, i, make([]byte, hsn.HalfPage)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(page uint64) {
		if err := c.ReadPage(ctx, page, make([]byte, hsn.HalfPage)); err != nil {
			t.Error(err)
		}
	}
	for range 60 {
		var together sync.WaitGroup
		for page := range uint64(4) {
			together.Go(func() {
				for range 4 {
					read(page)
				}
			})
		}
		together.Wait()
		for range aloneFor + 60 { // enough calls to begin each receive again
			read(0)
		}
	}
}
