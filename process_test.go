package weft_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

func pattern(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	r.Read(b)
	return b
}

func TestMessagesOfAllSizesArriveIntactAndInOrderBothWays(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		sizes := []int{0, 1, 64, 768, 769, 1472, 2048, 2049, 16384, 16385, 65536, 300_000, 1 << 20, 3}
		var wg sync.WaitGroup
		for _, w := range []struct{ from, to *weft.Process }{{a, b}, {b, a}} {
			wg.Add(2)
			go func() {
				defer wg.Done()
				for i, n := range sizes {
					if err := w.from.Send(ctx, w.to.Name(), weft.Tag(i), pattern(uint64(i), n)); err != nil {
						t.Errorf("send of %d bytes: %v", n, err)
					}
				}
			}()
			go func() {
				defer wg.Done()
				buf := make([]byte, 1<<20)
				for i, n := range sizes {
					m, err := w.to.Recv(ctx, w.from.Name(), weft.AnyTag, buf)
					if err != nil || m.Tag != weft.Tag(i) || m.From != w.from.Name() || !bytes.Equal(buf[:m.Len], pattern(uint64(i), n)) {
						t.Errorf("message %d of %d bytes: %d bytes with tag %d from %v, %v", i, n, m.Len, m.Tag, m.From, err)
					}
				}
			}()
		}
		wg.Wait()
	})
}

func TestPutAndGetReachARegionWithoutItsOwner(t *testing.T) { // USNIC-31, USNIC-54
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		r, err := b.Alloc(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		wire, err := r.Handle().MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var h weft.Handle
		if err := h.UnmarshalBinary(wire); err != nil || h != r.Handle() || h.Len() != 1<<20 || h.Owner() != b.Address() {
			t.Fatalf("handle %+v came back as %+v, %v", r.Handle(), h, err)
		}
		for _, n := range []int{0, 1, 700, 2000, 100_000, 1 << 20} {
			want := pattern(uint64(n), n)
			if err := a.Put(ctx, h, (1<<20)-n, want[:n/3], want[n/3:]); err != nil {
				t.Fatalf("put of %d bytes: %v", n, err)
			}
			// Counters takes the NIC's lock, so the race detector also sees the order that
			// messages establish.
			b.NIC().Counters()
			if !bytes.Equal(r.Bytes()[(1<<20)-n:], want) {
				t.Fatalf("put of %d bytes: the region has others", n)
			}
			b.NIC().Counters()
			got := make([]byte, n)
			if err := a.Get(ctx, h, (1<<20)-n, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("get of %d bytes: equal %v, %v", n, bytes.Equal(got, want), err)
			}
		}
		if err := a.Put(ctx, h, 1<<20-10, make([]byte, 11)); !errors.Is(err, weft.ErrRange) {
			t.Errorf("put beyond the end: %v; expected %v", err, weft.ErrRange)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.Get(ctx, h, 0, make([]byte, 10)); !errors.Is(err, weft.ErrRegion) {
			t.Errorf("get from a closed region: %v; expected %v", err, weft.ErrRegion)
		}
	})
}

func TestCallsFindTheirReplies(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		const callers, calls = 8, 20
		var wg sync.WaitGroup
		wg.Go(func() { // b must not end before its last reply has left
			buf := make([]byte, 100)
			for range callers * calls {
				m, err := b.Recv(ctx, weft.AnyProcess, 5, buf)
				if err != nil || !m.IsCall() {
					t.Errorf("receive of a call: %v, a call: %v", err, m.IsCall())
					return
				}
				if err := b.Reply(ctx, m, []byte("re: "), buf[:m.Len]); err != nil {
					t.Errorf("reply: %v", err)
				}
			}
		})
		for c := range callers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				reply := make([]byte, 100)
				for i := range calls {
					q := fmt.Sprintf("caller %d, question %d", c, i)
					m, err := a.Peer(b.Name()).Call(ctx, 5, []byte(q), reply)
					if err != nil || string(reply[:m.Len]) != "re: "+q {
						t.Errorf("%q was answered by %q, %v", q, reply[:m.Len], err)
					}
				}
			}()
		}
		wg.Wait()
	})
}

func TestAReceiveWhoseContextEndsLosesNothing(t *testing.T) { // decision 9
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		const messages = 200
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for i := range messages {
				if err := a.Send(ctx, b.Name(), weft.Tag(i), pattern(uint64(i), i*37)); err != nil {
					t.Errorf("send: %v", err)
				}
			}
		}()
		defer func() { <-sent }() // b must not end before its NIC has acknowledged the last message
		buf := make([]byte, messages*37)
		for next := 0; next < messages; {
			short, cancel := context.WithTimeout(ctx, time.Duration(1+next%7)*50*time.Microsecond)
			m, err := b.Recv(short, a.Name(), weft.AnyTag, buf)
			cancel()
			switch {
			case err == nil:
				if m.Tag != weft.Tag(next) || !bytes.Equal(buf[:m.Len], pattern(uint64(next), next*37)) {
					t.Fatalf("message %d has tag %d and %d bytes", next, m.Tag, m.Len)
				}
				next++
			case !errors.Is(err, context.DeadlineExceeded):
				t.Fatal(err)
			}
		}
	})
}

func TestErrorsNameWhatFailedAndWhom(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		nobody := weft.Name{App: "nobody", Index: 4}
		for _, c := range []struct {
			what string
			err  error
			is   error
		}{
			{"a send to a name that no process has", a.Send(ctx, nobody, 1), weft.ErrNameUnknown},
			{"a send to any process", a.Send(ctx, weft.AnyProcess, 1), weft.ErrBadArgument},
			{"a send with any tag", a.Send(ctx, b.Name(), weft.AnyTag), weft.ErrBadArgument},
			{"a send to an impossible name", a.Send(ctx, weft.Name{App: "A b"}, 1), weft.ErrBadArgument},
		} {
			var op *weft.OpError
			if !errors.Is(c.err, c.is) || !errors.As(c.err, &op) {
				t.Errorf("%s: %v; expected an OpError with %q", c.what, c.err, c.is)
			}
		}
		if err := a.Send(ctx, nobody, 1); err == nil || !bytes.Contains([]byte(err.Error()), []byte("nobody/4")) {
			t.Errorf("%q does not name nobody/4", err)
		}
		if _, err := a.NIC().Attach(ctx, b.Name()); !errors.Is(err, weft.ErrNameTaken) {
			t.Errorf("a second b/0: %v; expected %v", err, weft.ErrNameTaken)
		}
	})
}

func TestWhoWaitsForAProcessThatEndsIsTold(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		c, err := b.NIC().Attach(ctx, weft.Name{App: "c"})
		if err != nil {
			t.Fatal(err)
		}
		events := a.Watch()
		defer events.Close()
		if _, err := a.WaitName(ctx, c.Name()); err != nil {
			t.Fatal(err)
		}
		var recv weft.Op
		if err := a.StartRecv(&recv, c.Name(), weft.AnyTag, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		var send weft.Op
		toC := a.Peer(c.Name())
		// The message is long, and is not received.
		if err := toC.StartSendDelivered(&send, 1, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		// This send uses the command queue, after the two operations above. So both are in
		// flight.
		if err := toC.SendDelivered(ctx, 2, nil); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := recv.Wait(ctx); !errors.Is(err, weft.ErrProcessGone) {
			t.Errorf("receive: %v; expected %v", err, weft.ErrProcessGone)
		}
		if _, err := send.Wait(ctx); !errors.Is(err, weft.ErrProcessGone) {
			t.Errorf("send: %v; expected %v", err, weft.ErrProcessGone)
		}
		e, err := events.Next(ctx)
		if err != nil {
			t.Log(a.NIC().Counters())
		}
		if err != nil || e.Kind != weft.EventProcessGone || e.Name != c.Name() {
			t.Errorf("event %v, %v; expected that %v has gone", e, err, c.Name())
		}
	})
}

func TestWhatWasSentBeforeACloseArrives(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		for i := range 50 {
			if err := a.Send(ctx, b.Name(), weft.Tag(i), pattern(1, 200)); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 200)
		for i := range 50 {
			if m, err := b.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf); err != nil || m.Tag != weft.Tag(i) {
				t.Fatalf("message %d: tag %d, %v", i, m.Tag, err)
			}
		}
	})
}
