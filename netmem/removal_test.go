package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/sim"
)

func TestAServerDoesNotLeaveForOthersThatAreFull(t *testing.T) {
	const pages = 100
	onSeveral(t, []int{32, 32, 32}, pages/2, ClientConfig{}, func(w *several) error {
		if err := w.write(pages); err != nil {
			return err
		}
		if err := w.RemoveServer(context.Background(), w.at[0]); err != nil {
			return fmt.Errorf("a server leaves others that have room: %w", err)
		}
		before := w.Stats()
		if err := w.RemoveServer(context.Background(), w.at[1]); !errors.Is(err, ErrFull) {
			return fmt.Errorf("a server leaves another that has room for half of its pages: %v", err)
		}
		if st := w.Stats(); st.ServersUp != before.ServersUp {
			return fmt.Errorf("%d servers are used, and %d before one could not leave", st.ServersUp, before.ServersUp)
		}
		if err := w.reads(pages); err != nil {
			return err
		}
		for i := range uint64(pages / 2) { // now there is
			if err := w.DiscardPage(context.Background(), i); err != nil {
				return err
			}
		}
		return w.RemoveServer(context.Background(), w.at[1])
	})
}

// A dead server can be removed like a live one, although no more live servers remain than a page
// has copies.
func TestADeadServerCanBeRemoved(t *testing.T) {
	const pages = 40
	onSeveral(t, []int{64, 64, 64}, pages, ClientConfig{Copies: 2}, func(w *several) error {
		w.f.Kill(w.running[0])
		sleep(w.sp, 10*time.Second)
		if st := w.Stats(); st.ServersUp != 2 || st.Lacking > 0 {
			return fmt.Errorf("%+v: expected two servers to have all pages", st)
		}
		ctx, cancel := w.sp.Runtime().WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.RemoveServer(ctx, w.at[0]); err != nil {
			return err
		}
		if err := w.RemoveServer(ctx, w.at[0]); err == nil {
			return errors.New("a server is removed twice")
		}
		if err := w.RemoveServer(ctx, w.at[1]); !errors.Is(err, ErrFew) {
			return fmt.Errorf("one of the last two servers is removed: %v", err)
		}
		return w.reads(pages)
	})
}

// A server whose removal was given up is used as before, and can be removed later.
func TestARemovalThatIsGivenUpLeavesTheServerInUse(t *testing.T) {
	const pages = 60
	onSeveral(t, []int{64, 64, 64}, pages, ClientConfig{RepairBytes: 4096}, func(w *several) error {
		ctx, cancel := w.sp.Runtime().WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.RemoveServer(ctx, w.at[0]); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("a server has left within a second, or not for want of time: %v", err)
		}
		if st := w.Stats(); st.ServersUp != 3 {
			return fmt.Errorf("%d servers are used when the removal of one of three was given up", st.ServersUp)
		}
		if err := w.AddServer(context.Background(), ServerRef{Name: w.at[0]}); err == nil {
			return errors.New("a server is added that is used already")
		}
		if err := w.reads(pages); err != nil {
			return err
		}
		ended, failed := false, error(nil)
		w.sp.Start("removal", func(*sim.Process) error {
			failed = w.RemoveServer(context.Background(), w.at[0])
			ended = true
			w.p.Runtime().Wake()
			return nil
		})
		sleep(w.sp, time.Second)
		if err := w.AddServer(context.Background(), ServerRef{Name: w.at[0]}); err == nil || ended {
			return errors.New("a server is added while it is being removed, or has left already")
		}
		if err := w.p.Runtime().WaitUntil(context.Background(), func() bool { return ended }); err != nil {
			return err
		}
		return errors.Join(failed, w.reads(pages))
	})
}
