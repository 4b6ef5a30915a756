package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/hsn"
)

// A discard while a server cannot be reached frees room on this server when it can be reached
// again.
func TestAServerThatWasAwayHearsWhatWasDiscarded(t *testing.T) {
	const pages = 32
	onSeveral(t, []int{pages / 2, pages / 2}, pages, ClientConfig{Copies: 2}, func(w *several) error {
		page := make([]byte, hsn.HalfPage)
		// silent is the silence before the first page is discarded. Either the discard notices
		// the silence, or the client has noticed it before.
		for _, silent := range []time.Duration{0, 2 * time.Second} {
			heal := w.f.Partition(2)
			sleep(w.sp, silent)
			for i := range uint64(pages) {
				if err := w.DiscardPage(context.Background(), i); err != nil {
					return err
				}
			}
			heal()
			sleep(w.sp, 5*time.Second)
			for i := range uint64(pages) {
				if err := w.WritePage(context.Background(), pages+i, page); err != nil {
					return fmt.Errorf("page %d of %d that there is room for, where all others were discarded: %w", i, pages, err)
				}
			}
			for i := range uint64(pages) {
				if err := w.DiscardPage(context.Background(), pages+i); err != nil {
					return err
				}
			}
			if err := w.write(pages); err != nil {
				return err
			}
			sleep(w.sp, time.Second)
			if err := w.reads(pages); err != nil {
				return err
			}
		}
		return nil
	})
}

// If a write of a new page fails because one of its servers is full, the page takes no room on
// the other server.
func TestAPageThatCouldNotBeWrittenTakesNoRoom(t *testing.T) {
	onSeveral(t, []int{64, 8}, full, ClientConfig{Copies: 2}, func(w *several) error {
		page, written := make([]byte, hsn.HalfPage), w.Stats().Pages
		for i := range uint64(50) {
			if err := w.WritePage(context.Background(), 1000+i, page); !errors.Is(err, ErrFull) {
				return fmt.Errorf("page %d more than there is room for: %w; expected %w", i, err, ErrFull)
			}
		}
		sleep(w.sp, time.Second)
		for i, s := range w.servers {
			if st := s.Stats(); st.Pages != written {
				return fmt.Errorf("%v has %d pages; expected %d, which could be written", w.at[i], st.Pages, written)
			}
		}
		return w.reads(uint64(written))
	})
}
