package proc

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/vni"
)

// deserted is a straight way that takes a receive, puts a message into its batch, and then serves nobody any more.
type deserted struct{ vni.Straight }

func (deserted) Receive(r *vni.StraightReceive) bool {
	r.Begin()
	r.Notice()
	return true
}

func (deserted) Swap(*vni.StraightReceive, *vni.Batch) *vni.Batch { return nil }

func TestNextEndsWhenItsNICServesItNoMoreThoughABatchIsNotEmpty(t *testing.T) {
	for status, want := range map[vni.Status]error{vni.StatusNameLost: ErrNameLost, vni.StatusOK: ErrNICGone} {
		n := &toy{}
		p, q := n.join(t, smallGeometry, true, func(*vni.Process, *toyProc) Waiter { return &polling{n: n} }, Options{Straight: deserted{}})
		if status != vni.StatusOK {
			q.nic.SetGone(status)
		}
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
	}
}
