package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
)

var bg = context.Background()

// pattern returns n bytes that show their position.
func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
	return b
}

func eachMode(t *testing.T, f func(t *testing.T, direct bool)) {
	for _, direct := range []bool{true, false} {
		t.Run(map[bool]string{true: "direct", false: "staged"}[direct], func(t *testing.T) { f(t, direct) })
	}
}

func TestMessagesOfEverySizeArriveWhole(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := pair(t, smallGeometry, direct)
		for i, n := range []int{0, 1, 767, 768, 769, 4096, 4097, 8 * 4096, 8*4096 + 1, 300_000, 1 << 20} {
			want := pattern(n, i)
			buf := make([]byte, n)
			op, err := b.StartRecv(Dest{}, AnyTag, buf)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Send(bg, app(t, "app/1"), uint64(i), want[:n/3], nil, want[n/3:]); err != nil {
				t.Fatal(err)
			}
			m, err := op.Wait(bg)
			if err != nil || m.Len != n || m.Full != uint64(n) || m.Tag != uint64(i) || m.From.String() != "app/0" || m.NIC != toyNIC || m.Gen != 3 {
				t.Fatalf("%d bytes: %+v, %v", n, m, err)
			}
			if !bytes.Equal(buf, want) {
				t.Fatalf("%d bytes: damaged", n)
			}
		}
	})
}

func TestManyPartsAreOneMessage(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := pair(t, smallGeometry, direct)
		want := pattern(40_000, 1)
		var parts [][]byte
		for i := 0; i < len(want); i += 1000 {
			parts = append(parts, want[i:i+1000], nil)
		}
		if err := a.Send(bg, app(t, "app/1"), 1, parts...); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, len(want))
		if m, err := b.Recv(bg, app(t, "app/0"), Tagged(1), buf); err != nil || m.Len != len(want) || !bytes.Equal(buf, want) {
			t.Fatalf("%+v, %v", m, err)
		}
	})
}

func TestTruncatedMessageIsReportedWithItsHead(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := pair(t, smallGeometry, direct)
		want := pattern(5000, 0)
		if err := a.Send(bg, app(t, "app/1"), 9, want); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		m, err := b.Recv(bg, Dest{}, AnyTag, buf)
		if !errors.Is(err, ErrTruncated) || m.Len != 100 || m.Full != 5000 || m.Tag != 9 || !bytes.Equal(buf, want[:100]) {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

func TestErrorsSayWhoAndWhat(t *testing.T) {
	_, a, _ := pair(t, smallGeometry, false)
	stale := app(t, "app/1")
	stale.Gen = 77
	ended, cancel := context.WithCancel(bg)
	cancel()
	for _, x := range []struct {
		to   Dest
		ctx  context.Context
		want error
		text string
	}{
		{app(t, "nobody/4"), bg, ErrNameUnknown, "weft: send to nobody/4: no live NIC knows this name"},
		{app(t, "gone/0"), bg, ErrProcessGone, "weft: send to gone/0: process gone"},
		{stale, bg, ErrStaleGeneration, "weft: send to app/1: process replaced by a later one"},
		{app(t, "silent/0"), ended, context.Canceled, "weft: send to silent/0: context canceled"},
		{Dest{NIC: toyNIC, Slot: 1, Gen: 9}, bg, ErrStaleGeneration, "weft: send at slot 1 of NIC 0:0:0:96:221:127:255:140: process replaced by a later one"},
		{Dest{}, bg, ErrBadArgument, "weft: send: invalid argument: the name is empty or malformed"},
	} {
		err := a.Send(x.ctx, x.to, 0, []byte("x"))
		var op *OpError
		if !errors.Is(err, x.want) || !errors.As(err, &op) || op.Op != "send" || op.Peer != x.to.Name || err.Error() != x.text {
			t.Errorf("to %+v: %v, want %q", x.to, err, x.text)
		}
	}
	for s := vni.StatusOK; s < vni.StatusNoMemory+2; s++ {
		if err := statusError(s); (err == nil) != (s == vni.StatusOK) {
			t.Errorf("status %v has error %v", s, err)
		}
	}
}

// Decision 9: after a context.Context expires, Recv returns either the message or the error, and
// nothing is lost.
func TestNoMessageIsLostToAnExpiringContext(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := parkedPair(t, smallGeometry, direct)
		// Each message whose number is a multiple of held is sent only when a receive for it has
		// expired.
		const total, held = 2000, 100
		whole, stop := context.WithTimeout(bg, time.Minute)
		defer stop()
		gate := make(chan struct{}, total)
		go func() {
			// Otherwise the receiver would wait for a message that is not sent.
			defer stop()
			for i := range uint64(total) {
				if i%held == 0 {
					select {
					case <-gate:
					case <-whole.Done():
						return
					}
				}
				if err := a.Send(whole, app(t, "app/1"), i, pattern(900, int(i))); err != nil {
					t.Errorf("send %d: %v", i, err)
					return
				}
			}
			<-whole.Done()
		}()
		buf := make([]byte, 900)
		expired, opened := 0, uint64(0)
		for next := uint64(0); next < total; {
			ctx, cancel := context.WithTimeout(whole, time.Duration(next%40)*time.Microsecond)
			m, err := b.Recv(ctx, Dest{}, AnyTag, buf)
			cancel()
			if whole.Err() != nil {
				t.Fatalf("message %d does not come", next)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				if expired++; next == opened {
					gate <- struct{}{}
					opened += held
				}
				continue
			}
			if err != nil || m.Tag != next || !bytes.Equal(buf, pattern(900, int(next))) {
				t.Fatalf("message %d: %+v, %v", next, m, err)
			}
			next++
		}
		if expired < total/held {
			t.Errorf("%d receives expired, expected %d at least", expired, total/held)
		}
	})
}

func TestBlockingFormsWaitForAContextAndStartFormsSayFull(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := parkedPair(t, smallGeometry, direct)
		var ops []*Op
		for range smallGeometry.Contexts {
			op, err := a.StartSend(app(t, "silent/0"), 0, []byte("x"))
			if err != nil {
				t.Fatal(err)
			}
			ops = append(ops, op)
		}
		if op, err := a.StartSend(app(t, "app/1"), 0); !errors.Is(err, ErrQueueFull) || op != nil {
			t.Errorf("one too many: %v, %v", op, err)
		}
		ctx, cancel := context.WithTimeout(bg, 5*time.Millisecond)
		defer cancel()
		if err := a.Send(ctx, app(t, "app/1"), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("blocked send: %v", err)
		}
		sent := make(chan error, 8)
		for i := range uint64(8) {
			go func() { sent <- a.Send(bg, app(t, "app/1"), i) }()
		}
		time.Sleep(2 * time.Millisecond)
		ops[0].Cancel() // its context is the one that the eight share
		if _, err := ops[0].Wait(bg); !errors.Is(err, ErrCancelled) {
			t.Errorf("cancelled: %v", err)
		}
		for range 8 {
			if _, err := b.Recv(bg, Dest{}, AnyTag, nil); err != nil {
				t.Fatal(err)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
		for _, op := range ops[1:] {
			op.Cancel()
			op.Cancel()
			if _, err := op.Wait(bg); !errors.Is(err, ErrCancelled) {
				t.Errorf("cancelled: %v", err)
			}
		}
	})
}

// takeSends fills all send contexts with messages that never end by themselves.
func takeSends(t *testing.T, p *Process) (ops []*Op) {
	for range smallGeometry.Contexts {
		op, err := p.StartSend(app(t, "silent/0"), 0, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	return ops
}

// If several goroutines waited at the NIC, each would be woken by each free context, and by many
// other events.
func TestOfManyGoroutinesThatLackAContextOneWaitsForTheNIC(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := parkedPair(t, smallGeometry, direct)
		ops := takeSends(t, a)
		const many = 100
		ended, cancel := context.WithTimeout(bg, 10*time.Millisecond)
		defer cancel()
		sent := make(chan error, many)
		for i := range many {
			ctx := bg
			if i%2 == 0 { // half of them stop waiting in line
				ctx = ended
			}
			go func() { sent <- a.Send(ctx, app(t, "app/1"), 7) }()
		}
		for range many / 2 {
			if err := <-sent; !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a send without a context: %v", err)
			}
		}
		time.Sleep(10 * time.Millisecond)
		if n := a.watched.Load(); n != 1 {
			t.Errorf("%d of %d that lack a context wait for the NIC", n, many/2)
		}
		for _, op := range ops {
			op.Cancel()
		}
		for range many / 2 {
			if _, err := b.Recv(bg, Dest{}, AnyTag, nil); err != nil {
				t.Fatal(err)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A call needs two contexts. While it lacks the one for its message, it must not hold the receive
// context that another call could use.
func TestACallThatLacksAContextForItsMessageKeepsNoReceiveWaiting(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := parkedPair(t, smallGeometry, direct)
		ops := takeSends(t, a)
		var recvs []*Op
		for range smallGeometry.Contexts {
			op, err := a.StartRecv(Dest{}, Tagged(1), nil)
			if err != nil {
				t.Fatal(err)
			}
			recvs = append(recvs, op)
		}
		ctx, cancel := context.WithCancel(bg)
		called, received := make(chan error, 1), make(chan error, 1)
		go func() { _, err := a.Call(ctx, app(t, "app/1"), 7, nil); called <- err }()
		time.Sleep(5 * time.Millisecond) // it is the first in line
		within, end := context.WithTimeout(bg, time.Minute)
		defer end()
		go func() { _, err := a.Recv(within, Dest{}, Tagged(2), nil); received <- err }()
		time.Sleep(5 * time.Millisecond)
		for _, op := range recvs {
			op.Cancel()
		}
		if err := b.Send(bg, app(t, "app/0"), 2); err != nil {
			t.Fatal(err)
		}
		if err := <-received; err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-called; !errors.Is(err, context.Canceled) {
			t.Errorf("a call without a context for its message: %v", err)
		}
		for _, op := range ops {
			op.Cancel()
		}
	})
}

// After a call was cancelled while it lacked that context, it must not hold the other context
// either.
func TestCallsThatLackAContextForTheirMessageGiveThatOfTheirReplyBack(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, _ := parkedPair(t, smallGeometry, direct)
		sends := takeSends(t, a)
		ctx, cancel := context.WithCancel(bg)
		cancel()
		for range 2 * smallGeometry.Contexts {
			if _, err := a.Call(ctx, app(t, "app/1"), 7, nil); !errors.Is(err, context.Canceled) {
				t.Fatalf("a call without a context for its message: %v", err)
			}
		}
		for i := range smallGeometry.Contexts {
			op, err := a.StartRecv(Dest{}, Tagged(1), nil)
			if err != nil {
				t.Fatalf("receive %d of %d: %v", i+1, smallGeometry.Contexts, err)
			}
			defer op.Cancel()
		}
		for _, op := range sends {
			op.Cancel()
		}
	})
}

func TestAProbeThatDoesNotWaitSaysFullWhenAllReceiveContextsAreTaken(t *testing.T) {
	_, a, _ := parkedPair(t, smallGeometry, true)
	for range smallGeometry.Contexts {
		if _, err := a.StartRecv(Dest{}, Tagged(1), nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	if _, found, err := a.Probe(ctx, Dest{}, Tagged(2), true); found || !errors.Is(err, ErrQueueFull) {
		t.Errorf("found %v, %v; expected %v", found, err, ErrQueueFull)
	}
}

func TestAnOpCanBeTestedWaitedForAgainAndUsedAgain(t *testing.T) {
	n, a, b := pair(t, smallGeometry, true)
	buf := make([]byte, 4)
	op, err := b.StartRecv(Dest{}, AnyTag, buf)
	if err != nil {
		t.Fatal(err)
	}
	if done, _, err := op.Test(); done || err != nil {
		t.Errorf("done before it began: %v", err)
	}
	ctx, cancel := context.WithTimeout(bg, time.Millisecond)
	defer cancel()
	if _, err := op.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait: %v", err)
	}
	if err := b.StartRecvInto(op, Dest{}, AnyTag, buf); !errors.Is(err, ErrBadArgument) {
		t.Errorf("an Op under way used again: %v", err)
	}
	if err := a.Send(bg, app(t, "app/1"), 5, []byte("four")); err != nil {
		t.Fatal(err)
	}
	n.poll()
	for range 2 { // the result does not change
		if done, m, err := op.Test(); !done || err != nil || m.Tag != 5 || string(buf) != "four" {
			t.Errorf("%v %+v %v %q", done, m, err, buf)
		}
	}
	if err := b.StartRecvInto(op, Dest{}, AnyTag, buf); err != nil {
		t.Fatal(err)
	}
	op.Cancel()
	if _, err := op.Wait(bg); !errors.Is(err, ErrCancelled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestCallsGetTheirOwnReplies(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := parkedPair(t, smallGeometry, direct)
		const callers, calls = 12, 60 // more callers than contexts
		go func() {
			buf := make([]byte, 2000)
			for {
				m, err := b.Recv(bg, Dest{}, AnyTag, buf)
				if err != nil {
					return
				}
				if err := b.Reply(bg, &m, []byte("re:"), buf[:m.Len]); err != nil {
					t.Errorf("reply: %v", err)
				}
			}
		}()
		var wg sync.WaitGroup
		for c := range callers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				reply := make([]byte, 2010)
				for i := range calls {
					q := append(fmt.Appendf(nil, "%d.%d.", c, i), make([]byte, i*30)...)
					m, err := a.Call(bg, app(t, "app/1"), uint64(c), reply, q)
					if err != nil || string(reply[:m.Len]) != "re:"+string(q) {
						t.Errorf("call %d.%d: %v", c, i, err)
						return
					}
				}
			}()
		}
		wg.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCallsThatFailLeaveNothingBehind(t *testing.T) {
	n, a, b := pair(t, smallGeometry, true)
	if _, err := a.Call(bg, app(t, "nobody/0"), 1, nil, nil); !errors.Is(err, ErrNameUnknown) {
		t.Errorf("call to a name that no process has: %v", err)
	}
	ctx, cancel := context.WithTimeout(bg, time.Millisecond)
	defer cancel()
	if _, err := a.Call(ctx, app(t, "app/1"), 1, nil, []byte("?")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call without reply: %v", err)
	}
	if len(n.procs[0].posted) != 0 {
		t.Errorf("%d receives left at the NIC", len(n.procs[0].posted))
	}
	m, err := b.Recv(bg, Dest{}, AnyTag, make([]byte, 1))
	if err != nil || !m.IsCall() {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := b.Reply(bg, &m, []byte("late")); err != nil {
		t.Errorf("late reply: %v", err)
	}
	if n.procs[0].refused != 1 || len(n.procs[0].stray) != 0 {
		t.Error("the late reply was kept")
	}
	if err := a.Send(bg, app(t, "app/1"), 1); err != nil {
		t.Fatal(err)
	}
	if m, err = b.Recv(bg, Dest{}, AnyTag, nil); err != nil || m.IsCall() {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := b.Reply(bg, &m); !errors.Is(err, ErrBadArgument) {
		t.Errorf("reply to what was no call: %v", err)
	}
	m.Token = 1<<32 | callBit | 1
	m.Gen++
	if err := b.Reply(bg, &m); !errors.Is(err, ErrStaleGeneration) {
		t.Errorf("reply to an earlier generation: %v", err)
	}
}

func TestPutAndGetReachOtherRegions(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := pair(t, smallGeometry, direct)
		r, err := b.Alloc(100_000)
		if err != nil {
			t.Fatal(err)
		}
		h := r.Handle()
		for _, n := range []int{1, 700, 5000, 99_000} {
			want := pattern(n, n)
			if err := a.Put(bg, h, 1000, want[:n/2], want[n/2:]); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(r.Bytes()[1000:1000+n], want) {
				t.Fatalf("put of %d bytes: damaged", n)
			}
			got := make([]byte, n)
			if err := a.Get(bg, h, 1000, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("get of %d bytes: %v", n, err)
			}
		}
		put, err := a.StartPut(h, 0, []byte("begin"))
		if err != nil {
			t.Fatal(err)
		}
		five := make([]byte, 5)
		get, err := a.StartGet(h, 0, five)
		if err != nil {
			t.Fatal(err)
		}
		_, err1 := put.Wait(bg)
		_, err2 := get.Wait(bg)
		if err1 != nil || err2 != nil || string(five) != "begin" {
			t.Errorf("%v, %v, %q", err1, err2, five)
		}
		bad := h
		bad.Key++
		if err := a.Get(bg, bad, 0, five); !errors.Is(err, ErrKey) {
			t.Errorf("wrong key: %v", err)
		}
		if err := a.Get(bg, h, 99_999, five); !errors.Is(err, ErrRange) {
			t.Errorf("beyond the end: %v", err)
		}
		if err := a.Put(bg, Handle{}, 0, five); !errors.Is(err, ErrBadArgument) {
			t.Errorf("empty handle: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := a.Put(bg, h, 0, five); !errors.Is(err, ErrRegion) {
			t.Errorf("closed region: %v", err)
		}
	})
}

func TestBytesInRegionsAreNotStaged(t *testing.T) {
	n, a, b := pair(t, smallGeometry, false)
	var from, to []*Region
	for range 3 {
		r, err := a.Alloc(50_000)
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.Alloc(50_000)
		if err != nil {
			t.Fatal(err)
		}
		from, to = append(from, r), append(to, s)
	}
	want := pattern(90_000, 3)
	copy(from[0].Bytes(), want[:50_000])
	copy(from[2].Bytes()[10_000:], want[50_000:])
	if err := a.Send(bg, app(t, "app/1"), 1, from[0].Bytes(), from[2].Bytes()[10_000:]); err != nil {
		t.Fatal(err)
	}
	if len(n.procs[0].regions) != 3 || a.pool.free[0].pages != smallGeometry.PoolPages {
		t.Error("a message in regions was staged")
	}
	m, err := b.Recv(bg, Dest{}, AnyTag, to[1].Bytes()[100:])
	if !errors.Is(err, ErrTruncated) || !bytes.Equal(to[1].Bytes()[100:], want[:49_900]) || m.Len != 49_900 {
		t.Errorf("%+v, %v", m, err)
	}
	if len(n.procs[1].regions) != 3 {
		t.Error("a receive into a region was staged")
	}
	if err := from[0].Close(); err != nil {
		t.Error(err)
	}
	if d, ok := a.inRegions([][]byte{from[0].Bytes()}, nil); ok {
		t.Errorf("a closed region is found: %v", d)
	}
	if _, err := a.Alloc(0); !errors.Is(err, ErrBadArgument) {
		t.Errorf("empty region: %v", err)
	}
}

func TestAShortReceiveTakesAPageOfThePoolUnlessItLiesInARegion(t *testing.T) {
	_, a, b := pair(t, smallGeometry, false)
	r, err := b.Alloc(limits.PageBytes)
	if err != nil {
		t.Fatal(err)
	}
	heap := make([]byte, limits.PageBytes+1)
	for _, c := range []struct {
		into  []byte
		pages int
	}{{r.Bytes()[10:74], 0}, {heap[:64], 1}, {heap[:limits.PageBytes], 1}, {heap, 2}, {nil, 0}} {
		clear(c.into)
		op, err := b.StartRecv(Dest{}, AnyTag, c.into)
		if err != nil {
			t.Fatal(err)
		}
		if left := b.pool.free[0].pages; smallGeometry.PoolPages-left != c.pages {
			t.Errorf("%d bytes: %d pages of the pool taken, expected %d", len(c.into), smallGeometry.PoolPages-left, c.pages)
		}
		want := pattern(len(c.into), 5)
		if err := a.Send(bg, app(t, "app/1"), 1, want); err != nil {
			t.Fatal(err)
		}
		if m, err := op.Wait(bg); err != nil || m.Len != len(want) || !bytes.Equal(c.into, want) {
			t.Errorf("%d bytes: %+v, %v", len(c.into), m, err)
		}
		if left := b.pool.free[0].pages; left != smallGeometry.PoolPages {
			t.Errorf("%d bytes: %d pages are not given back", len(c.into), smallGeometry.PoolPages-left)
		}
	}
}

func TestTemporaryRegionsAreKeptButNotAll(t *testing.T) {
	n, a, b := pair(t, smallGeometry, false)
	big := pattern(200_000, 2)
	for range 5 { // by start forms, which have no refills
		op, err := a.StartSend(app(t, "app/1"), 1, big)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := op.Wait(bg); err != nil {
			t.Fatal(err)
		}
	}
	if len(n.procs[0].regions) != 1 {
		t.Errorf("%d regions for five messages, one after the other", len(n.procs[0].regions))
	}
	for i := range 9 {
		a.spare, a.pool.free = nil, nil // as if all were in use
		if err := a.Send(bg, app(t, "app/1"), 1, big[:1<<12+i]); err != nil {
			t.Fatal(err)
		}
	}
	for range limits.Temporaries + 3 {
		id, _, mem, err := a.mem.Alloc(4096, false)
		must(err)
		a.spare = append(a.spare, temporary{id, mem})
	}
	if err := a.Send(bg, app(t, "app/1"), 1, big[:1000]); err != nil || len(a.spare) > limits.Temporaries {
		t.Errorf("%d temporary regions kept, want at most %d; %v", len(a.spare), limits.Temporaries, err)
	}
	before := len(n.procs[0].regions)
	kept := len(a.spare)
	if err := a.Close(); err != nil || len(n.procs[0].regions) != before-kept {
		t.Errorf("%d regions after Close, %v", len(n.procs[0].regions), err)
	}
	huge := make([]byte, 65<<20)
	if _, err := b.StartSend(app(t, "app/0"), 0, huge); err == nil || !strings.Contains(err.Error(), "staging") {
		t.Errorf("without memory: %v", err)
	}
}

func TestResolveWaitsForTheName(t *testing.T) {
	n, a, _ := pair(t, smallGeometry, true)
	d, err := a.Resolve(bg, app(t, "app/1").Name)
	if want := (Dest{Name: app(t, "app/1").Name, NIC: toyNIC, Slot: 1, Gen: 3}); err != nil || d != want {
		t.Errorf("%+v, %v", d, err)
	}
	ctx, cancel := context.WithTimeout(bg, time.Millisecond)
	defer cancel()
	if _, err := a.Resolve(ctx, app(t, "later/0").Name); !errors.Is(err, context.DeadlineExceeded) || len(n.procs[0].held) != 0 {
		t.Errorf("%v, %d held", err, len(n.procs[0].held))
	}
}

func TestAWatcherThatIsClosedEndsItsNext(t *testing.T) {
	_, a, _ := parkedPair(t, smallGeometry, true)
	w := a.Watch()
	ended := make(chan error)
	go func() {
		_, _, err := w.Next(bg)
		ended <- err
	}()
	time.Sleep(5 * time.Millisecond) // it waits
	w.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits on")
	}
}

func TestEventsReachWhoeverWaits(t *testing.T) {
	n, a, _ := parkedPair(t, smallGeometry, true)
	got := make(chan vni.Event)
	go func() {
		e, _, err := a.NextEvent(bg)
		if err != nil {
			t.Error(err)
		}
		got <- e
	}()
	time.Sleep(time.Millisecond)
	n.mu.Lock()
	n.procs[0].nic.Event(vni.Event{Kind: vni.EventUnreachable, NIC: 5, Count: 6})
	if n.procs[0].nic.Sleeping() {
		n.procs[0].wake()
	}
	n.mu.Unlock()
	if e := <-got; e.NIC != 5 || e.Count != 6 {
		t.Errorf("%+v", e)
	}
	if _, _, ok, err := a.PollEvent(); ok || err != nil {
		t.Errorf("one more event: %v, %v", ok, err)
	}
}

// No user asks for the results of the first operations, which have ended. The next operations
// take their contexts.
func TestOperationsThatHaveEndedKeepNoOtherFromBeginning(t *testing.T) {
	eachMode(t, func(t *testing.T, direct bool) {
		_, a, b := parkedPair(t, smallGeometry, direct)
		bg, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		forgotten := make([]Op, smallGeometry.Contexts)
		ended := func() {
			t.Helper()
			for i := range forgotten {
				if err := a.StartSendInto(&forgotten[i], app(t, "app/1"), 0, make([]byte, 2000)); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Recv(bg, Dest{}, AnyTag, make([]byte, 2000)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range forgotten {
				for !forgotten[i].Ended() && bg.Err() == nil {
					time.Sleep(time.Millisecond)
				}
			}
		}
		ended()
		sent := make(chan error, 1)
		go func() { sent <- a.Send(bg, app(t, "app/1"), 7, []byte("blocking")) }()
		if m, err := b.Recv(bg, Dest{}, AnyTag, make([]byte, 100)); err != nil || m.Tag != 7 {
			t.Fatalf("%+v, %v", m, err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		for i := range forgotten {
			if done, _, err := forgotten[i].Test(); !done || err != nil {
				t.Errorf("operation %d: done %v, %v", i, done, err)
			}
		}
		ended() // each Op is used again
		op, err := a.StartRecv(Dest{}, AnyTag, make([]byte, 100))
		if err != nil {
			t.Fatal(err)
		}
		started, err := a.StartSend(app(t, "app/1"), 8)
		if err != nil {
			t.Fatalf("a start form: %v", err)
		}
		if m, err := b.Recv(bg, Dest{}, AnyTag, nil); err != nil || m.Tag != 8 {
			t.Fatalf("%+v, %v", m, err)
		}
		if _, err := started.Wait(bg); err != nil {
			t.Fatal(err)
		}
		op.Cancel()
		if _, err := op.Wait(bg); !errors.Is(err, ErrCancelled) {
			t.Fatal(err)
		}
	})
}
