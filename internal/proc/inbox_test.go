package proc

import (
	"context"
	"errors"
	"runtime"
	"sync"
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

// A goroutine that lacks a context settles the ended receive of an Inbox, and gives its context
// back after that. Next finds that the receive is done, and posts the ring again. The race
// detector checks that Next waits for that goroutine.
func TestNextPostsARingAgainBehindWhatHasSettledIt(t *testing.T) {
	for range 100 {
		n := &toy{blind: true}
		p, q := n.join(t, smallGeometry, true, func(*vni.Process, *toyProc) Waiter { return &polling{n: n} }, Options{})
		over, cancel := context.WithCancel(bg)
		cancel()
		b := p.OpenInbox(Dest{}, AnyTag, 100, 0)
		next := func(want error) {
			t.Helper()
			if _, _, err := b.Next(over); !errors.Is(err, want) {
				t.Errorf("ended with %v, want %v", err, want)
			}
		}
		end := func(status vni.Status) (ctx int) {
			c, ok := q.nic.Next()
			if !ok || c.Code != vni.CodeReceiveRing {
				t.Fatalf("no ring is posted, but %+v", c)
			}
			ctx = int(c.Context)
			must(q.nic.Receive(ctx, new(vni.ReceiveContext)))
			must(q.nic.Complete(true, ctx, &vni.Completion{Status: status}, true))
			return ctx
		}
		next(context.Canceled) // posts the ring
		ctx := end(vni.StatusProcessGone)
		var other sync.WaitGroup
		other.Go(func() { b.op.reclaim(receiveList, ctx) })
		for !b.op.done.Load() {
			runtime.Gosched()
		}
		next(ErrProcessGone)
		next(context.Canceled)
		other.Wait()
		end(vni.StatusCancelled)
		next(ErrClosed)
		b.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A closed Inbox is no longer counted. Otherwise other Inboxes would get no context after a
// while, and the segment of the process would never be released.
func TestAnInboxThatIsClosedLeavesItsContextToOthers(t *testing.T) {
	_, a, _ := pair(t, smallGeometry, false)
	for i := range 2 * smallGeometry.Contexts {
		b := a.OpenInbox(Dest{}, Tagged(1), 64, 0)
		if b.counts = a.countInbox(); !b.counts {
			t.Fatalf("Inbox %d may not have a context, though all before it are closed", i+1)
		}
		b.Close()
	}
}
