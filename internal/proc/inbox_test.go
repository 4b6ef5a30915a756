package proc

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

func TestNextEndsWhenItsNICServesItNoMore(t *testing.T) {
	for status, want := range map[vni.Status]error{vni.StatusNameLost: ErrNameLost, vni.StatusDetached: ErrDetached} {
		n := &toy{}
		p, q := n.join(t, smallGeometry, true, func(*vni.Process, *toyProc) Waiter { return &polling{n: n} }, Options{})
		q.nic.SetGone(status)
		b := p.OpenInbox(Dest{}, AnyTag, 100, 10)
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(bg, time.Minute)
			defer cancel()
			_, _, err := b.Next(ctx)
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, want) {
				t.Errorf("ended with %v, want %v", err, want)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("Next does not end")
		}
		b.Close()
	}
}
