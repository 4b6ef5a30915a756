package netmem

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/hsn"
)

// decided reads a page after a write of 99 to it has failed. It checks that each further read
// returns the content of the first one.
func (w *several) decided(page uint64, was byte) (is byte, err error) {
	for range 10 {
		ctx, cancel := w.sp.Runtime().WithTimeout(context.Background(), time.Second)
		got := make([]byte, hsn.HalfPage)
		err := w.ReadPage(ctx, page, got)
		cancel()
		if err != nil || got[0] != was && got[0] != 99 || is != 0 && got[0] != is {
			return is, fmt.Errorf("page %d, which was %d before a write of 99 failed, and was read as %d since, is %d: %w", page, was, is, got[0], err)
		}
		is = got[0]
	}
	return is, nil
}

// An acknowledged page can be read after a later write of it has failed because one of its two
// servers cannot be reached. When the server can be reached again, the page has both copies
// again, with the content of the first read.
func TestAPageWhoseWriteHasFailedIsReadWhileAServerIsDown(t *testing.T) {
	onSeveral(t, []int{64, 64}, 8, ClientConfig{Copies: 2}, func(w *several) error {
		const page = 3
		heal := w.f.Partition(2)
		sleep(w.sp, time.Second)
		ctx, cancel := w.sp.Runtime().WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.WritePage(ctx, page, append([]byte{99}, make([]byte, hsn.HalfPage-1)...)); !errors.Is(err, ErrFew) || strings.Contains(err.Error(), "\n") {
			return fmt.Errorf("a write of two copies with one server: %w; expected %w, in one line", err, ErrFew)
		}
		is, err := w.decided(page, page)
		if err != nil {
			return err
		}
		if st := w.Stats(); st.Pending != 1 {
			return fmt.Errorf("%d pages wait to be written; expected 1", st.Pending)
		}
		heal()
		sleep(w.sp, 10*time.Second)
		if st := w.Stats(); st.Lacking != 0 || st.Pending != 0 {
			return fmt.Errorf("%d pages lack copies and %d wait to be written when both servers are up", st.Lacking, st.Pending)
		}
		w.f.StopNIC(1)
		if again, err := w.decided(page, page); err != nil || again != is {
			return fmt.Errorf("page %d was read as %d, and now as %d: %w", page, is, again, err)
		}
		return nil
	})
}

// The same holds if one of the servers has no room for the written content: compressed, the page
// was smaller before.
func TestAPageWhoseWriteHasFailedIsReadWhileAServerIsFull(t *testing.T) {
	onSeveral(t, []int{64, 32}, full, ClientConfig{Copies: 2, Compress: true}, func(w *several) error {
		random, failed := rand.NewChaCha8([32]byte{}), 0
		for page := range uint64(20) {
			noise := make([]byte, hsn.HalfPage)
			_, _ = random.Read(noise)
			noise[0] = 99
			if err := w.WritePage(context.Background(), page, noise); errors.Is(err, ErrFull) {
				failed++
			} else if err != nil {
				return err
			}
			if _, err := w.decided(page, byte(page)); err != nil {
				return err
			}
		}
		if failed == 0 {
			return errors.New("no write has failed")
		}
		for page := uint64(100); page < 500; page++ {
			if err := w.DiscardPage(context.Background(), page); err != nil {
				return err
			}
		}
		sleep(w.sp, time.Minute)
		if st := w.Stats(); st.Lacking != 0 || st.Pending != 0 {
			return fmt.Errorf("%d pages lack copies and %d wait to be written when there is room", st.Lacking, st.Pending)
		}
		return nil
	})
}

// A page that waits to be written takes one of a bounded number of places. A discard of the page
// frees the place.
func TestADiscardedPageNoLongerWaitsToBeWritten(t *testing.T) {
	for _, cfg := range []ClientConfig{{Copies: 2}, {Coding: Code{Data: 2, Parity: 1}}} {
		onSeveral(t, []int{64, 64, 64}[:max(cfg.Copies, cfg.Coding.servers())], 8, cfg, func(w *several) error {
			const page = 3
			heal := w.f.Partition(2)
			sleep(w.sp, time.Second)
			ctx, cancel := w.sp.Runtime().WithTimeout(context.Background(), time.Second)
			defer cancel()
			if err := w.WritePage(ctx, page, append([]byte{99}, make([]byte, hsn.HalfPage-1)...)); !errors.Is(err, ErrFew) {
				return fmt.Errorf("%v: a write without a server: %w; expected %w", w.code, err, ErrFew)
			}
			if _, err := w.decided(page, page); err != nil {
				return err
			}
			if st := w.Stats(); st.Pending != 1 {
				return fmt.Errorf("%v: %d pages wait to be written; expected 1", w.code, st.Pending)
			}
			if err := w.DiscardPage(context.Background(), page); err != nil {
				return err
			}
			if st := w.Stats(); st.Pending != 0 {
				return fmt.Errorf("%v: %d pages wait to be written after the discard; expected none", w.code, st.Pending)
			}
			heal()
			sleep(w.sp, 10*time.Second)
			if err := w.ReadPage(context.Background(), page, make([]byte, hsn.HalfPage)); !errors.Is(err, ErrMissing) {
				return fmt.Errorf("%v: a read of the discarded page: %w; expected %w", w.code, err, ErrMissing)
			}
			return nil
		})
	}
}
