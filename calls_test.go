package weft_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// onOneNIC attaches two processes to one NIC.
func onOneNIC(t *testing.T) (ctx context.Context, a, b *weft.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	n, err := weft.OpenNIC(ctx, weft.Config{Link: weft.NewSwitch().Link()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	for _, p := range []struct {
		to  **weft.Process
		app string
	}{{&a, "a"}, {&b, "b"}} {
		if *p.to, err = n.Attach(ctx, weft.Name{App: p.app}); err != nil {
			t.Fatal(err)
		}
	}
	return ctx, a, b
}

func TestAReplyWithinANICFailsIfItsCallerHasGivenUp(t *testing.T) {
	ctx, a, b := onOneNIC(t)
	for _, n := range []int{0, 10, 5000, 100_000} {
		asking, giveUp := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := a.Peer(b.Name()).Call(asking, 1, []byte("?"), make([]byte, n))
			ended <- err
		}()
		m, err := b.Recv(ctx, weft.AnyProcess, 1, make([]byte, 1))
		if err != nil {
			t.Fatal(err)
		}
		giveUp()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("a call that is given up: %v; expected %v", err, context.Canceled)
		}
		for range 2 {
			if err := b.Reply(ctx, m, make([]byte, n)); !errors.Is(err, weft.ErrCancelled) {
				t.Errorf("a reply of %d bytes: %v; expected %v", n, err, weft.ErrCancelled)
			}
		}
	}
}

func TestOfRepliesByManyGoroutinesOneLeaves(t *testing.T) {
	test := func(t *testing.T, ctx context.Context, a, b *weft.Process) {
		in, err := b.Inbox(weft.AnyProcess, 2, 100)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		for i := range 50 {
			tag := weft.Tag(1 + i%2)
			answer := make(chan byte, 1)
			go func() {
				reply := make([]byte, 1)
				if m, err := a.Peer(b.Name()).Call(ctx, tag, []byte("?"), reply); err != nil || m.Tag != 0 {
					t.Errorf("call %d: tag %d, %v", i, m.Tag, err)
				}
				answer <- reply[0]
			}()
			var m weft.Message
			if tag == 1 {
				got, err := b.Recv(ctx, weft.AnyProcess, tag, make([]byte, 1))
				if err != nil {
					t.Fatal(err)
				}
				m = got
			} else {
				got, err := in.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				m = got
			}
			var left atomic.Int32
			var wg sync.WaitGroup
			for k := range 4 {
				wg.Go(func() {
					switch err := b.Reply(ctx, m, []byte{byte(10 + k)}); {
					case err == nil:
						left.Add(int32(10 + k))
					case !errors.Is(err, weft.ErrBadArgument):
						t.Errorf("one reply of several: %v; expected %v", err, weft.ErrBadArgument)
					}
				})
			}
			wg.Wait()
			if got, sent := <-answer, left.Load(); int32(got) != sent {
				t.Errorf("call %d got reply %d, and the replies that left have the sum %d", i, got, sent)
			}
		}
	}
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		test(t, ctx, a, b)
	})
	t.Run("one NIC", func(t *testing.T) {
		ctx, a, b := onOneNIC(t)
		test(t, ctx, a, b)
	})
}

func TestCallsInTheSteadyStateAllocateNothing(t *testing.T) { // P12
	if testing.Short() {
		t.Skip("short runs may be for the race detector, with which system calls allocate")
	}
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		served := make(chan struct{})
		serving, stop := context.WithCancel(ctx)
		go func() {
			defer close(served)
			buf := make([]byte, 64)
			for {
				m, err := b.Recv(serving, weft.AnyProcess, 1, buf)
				if err != nil {
					return
				}
				if err := b.Reply(ctx, m, buf[:m.Len]); err != nil {
					t.Error(err)
				}
			}
		}()
		request, reply := make([]byte, 64), make([]byte, 64)
		if got := steadyAllocs(func() {
			if _, err := a.Peer(b.Name()).Call(ctx, 1, request, reply); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("a call and its reply: %v allocations", got)
		}
		stop()
		<-served
	})
}
