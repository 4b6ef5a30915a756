package netmem

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/hsn"
)

// deceive cuts the first server off until its pages have copies elsewhere, and damages its
// memory. It kills the second server when the first can be reached again. It returns when the
// client believes that both are up.
func (w *several) deceive() error {
	heal := w.f.Partition(1)
	sleep(w.sp, 2*time.Second)
	if st := w.Stats(); st.Lacking > 0 || st.Repaired == 0 {
		return fmt.Errorf("%d pages lack copies when a server was silent for long, and %d have new ones", st.Lacking, st.Repaired)
	}
	for p := range w.servers[0].store.all() {
		p.data[0] ^= 0x55
	}
	w.f.Kill(w.running[1])
	heal()
	for until := w.sp.Runtime().Now().Add(time.Second); w.Stats().ServersUp < len(w.at); sleep(w.sp, time.Millisecond) {
		if w.sp.Runtime().Now().After(until) {
			return errors.New("a server that is reached again is not known to be up, or one that has died is known to be down")
		}
	}
	return nil
}

// The pages of a server that is cut off have other copies when its memory goes bad. The server is
// back before the client knows that another server has died. So for each page that the two
// servers share, only the copy that was made meanwhile can be read. This copy is not taken back,
// although the client believes that the page has surplus copies.
func TestACopyIsNotTakenBackUnlessTheOthersCanBeRead(t *testing.T) {
	for name, cfg := range map[string]ClientConfig{"copies": {Copies: 2}, "shards": {Coding: Code{2, 1}}} {
		t.Run(name, func(t *testing.T) {
			const pages = 20
			onSeveral(t, []int{64, 64, 64, 64}, pages, cfg, func(w *several) error {
				if err := w.deceive(); err != nil {
					return err
				}
				sleep(w.sp, 10*time.Second)
				if st := w.Stats(); st.Lacking > 0 {
					return fmt.Errorf("%d pages lack copies when three servers are up", st.Lacking)
				}
				return w.reads(pages)
			})
		})
	}
}

// Surplus copies are taken back after the other copies have been read, and take no room any more.
func TestCopiesThatAreTooManyAreTakenBack(t *testing.T) {
	const pages = 20
	onSeveral(t, []int{64, 64, 64}, pages, ClientConfig{Copies: 2}, func(w *several) error {
		heal := w.f.Partition(1)
		sleep(w.sp, 2*time.Second)
		// The server that is cut off has old versions of these pages.
		for page := range uint64(pages / 2) {
			b := make([]byte, hsn.HalfPage)
			b[0] = byte(page)
			if err := w.WritePage(context.Background(), page, b); err != nil {
				return err
			}
		}
		heal()
		sleep(w.sp, 10*time.Second)
		n := 0
		for _, s := range w.servers {
			n += s.Stats().Pages
		}
		if n != 2*pages {
			return fmt.Errorf("%d copies of %d pages; expected two of each", n, pages)
		}
		return w.reads(pages)
	})
}

// A server that is being removed does not leave with the last readable copy of a page, although
// the client believes that two other servers have the page.
func TestAServerDoesNotLeaveWithTheLastCopyThatCanBeRead(t *testing.T) {
	const page = 1000
	onSeveral(t, []int{64, 64, 64}, 0, ClientConfig{Copies: 2}, func(w *several) error {
		if err := w.RemoveServer(context.Background(), w.at[2]); err != nil {
			return err
		}
		// on the two other servers
		if err := w.WritePage(context.Background(), page, make([]byte, hsn.HalfPage)); err != nil {
			return err
		}
		if err := w.AddServer(context.Background(), ServerRef{Name: w.at[2]}); err != nil {
			return err
		}
		if err := w.deceive(); err != nil {
			return err
		}
		ctx, cancel := w.sp.Runtime().WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.RemoveServer(ctx, w.at[2]); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the removal of the server that has the last copy which can be read: %v; expected %w", err, context.DeadlineExceeded)
		}
		within, cancelRead := w.sp.Runtime().WithTimeout(context.Background(), time.Minute)
		defer cancelRead()
		return w.ReadPage(within, page, make([]byte, hsn.HalfPage))
	})
}
