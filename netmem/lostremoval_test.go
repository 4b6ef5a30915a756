package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// A page that its server has lost does not block the removal of the server for ever. The removal
// names the page, and after the page is discarded the server leaves.
func TestAServerThatHasLostAPageDoesNotHoldUpItsRemoval(t *testing.T) {
	const pages = 40
	onSeveral(t, []int{64, 64, 64, 64}, pages, ClientConfig{}, func(w *several) error {
		key := pageKey{}
		for p := range w.servers[0].store.all() {
			if key.owner.App == "" || p.key.page < key.page {
				key = p.key
			}
		}
		w.servers[0].store.discard(key, ^uint64(0))
		ctx, cancel := w.sp.Runtime().WithTimeout(context.Background(), time.Minute)
		defer cancel()
		want := fmt.Sprintf("netmem: remove server memory/0: netmem: read page %d: %v", key.page, ErrLost)
		if err := w.RemoveServer(ctx, w.at[0]); !errors.Is(err, ErrLost) || err.Error() != want {
			return fmt.Errorf("the removal of a server that has lost a page: %w; expected %s", err, want)
		}
		if err := w.DiscardPage(ctx, key.page); err != nil {
			return err
		}
		return w.RemoveServer(ctx, w.at[0])
	})
}
