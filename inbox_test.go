package weft_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/limits"
)

func inbox(t testing.TB, p *weft.Process, from weft.Name, tag weft.Tag, size int) *weft.Inbox {
	t.Helper()
	in, err := p.Inbox(from, tag, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Close)
	return in
}

func TestAnInboxHandsOutMessagesInTheirOrder(t *testing.T) { // USNIC-28
	links(t, func(t *testing.T, n *network) {
		ctx, p, q := pair(t, n)
		in := inbox(t, q, weft.AnyProcess, weft.AnyTag, 300_000)
		sizes := []int{0, 1, 64, 5000, 64, 300_000, 1, 300_001, 2}
		done := make(chan error, 1)
		go func() {
			for i, size := range sizes {
				msg := make([]byte, size)
				scribble(msg, i)
				if err := p.Send(ctx, q.Name(), weft.Tag(i), msg); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for i, size := range sizes {
			m, err := in.Next(ctx)
			if cut := size > 300_000; cut != errors.Is(err, weft.ErrTruncated) || err != nil && !cut {
				t.Fatalf("message %d of %d bytes: %v", i, size, err)
			}
			want := make([]byte, size)
			scribble(want, i)
			if m.Tag != weft.Tag(i) || m.From != p.Name() || m.Addr != p.Address() || m.Full != size || m.Len != min(size, 300_000) || string(m.Data) != string(want[:m.Len]) {
				t.Fatalf("message %d of %d bytes came as %+v with %d", i, size, m, len(m.Data))
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestManyMessagesArriveInTheirOrder(t *testing.T) { // decision 5
	links(t, func(t *testing.T, n *network) {
		ctx, p, q := pair(t, n)
		in := inbox(t, q, p.Name(), 1, 0)
		const many, calls = 100, 30
		sent := make(chan error, 1)
		go func() {
			messages := make([][]byte, many)
			for c := range calls {
				for i := range messages {
					messages[i] = fmt.Append(nil, c*many+i)
				}
				// Some are long.
				messages[many/2] = append(messages[many/2], make([]byte, c*1000)...)
				if k, err := p.Peer(q.Name()).SendMany(ctx, 1, messages); err != nil || k != many {
					sent <- fmt.Errorf("%d of %d were sent: %w", k, many, err)
					return
				}
				for i := range messages {
					clear(messages[i]) // the caller may use them again
				}
			}
			sent <- nil
		}()
		for i := range many * calls {
			m, err := in.Next(ctx)
			if want := fmt.Sprint(i); err != nil || !strings.HasPrefix(string(m.Data), want) {
				t.Fatalf("message %d came as %.20q, %v", i, m.Data, err)
			}
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

func TestManyMessagesLeaveBesideThoseThatAnotherProcessHolds(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		nics := hosts(t, n, 3)
		attach := func(nic int, app string) *weft.Process {
			p, err := nics[nic].Attach(ctx, weft.Name{App: app})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		holder, sender, one, other := attach(2, "holder"), attach(2, "sender"), attach(0, "one"), attach(1, "other")
		in, from := inbox(t, other, sender.Name(), 1, 0), inbox(t, one, holder.Name(), 1, 0)
		// By the command queue, which opens the pairs.
		for _, p := range []*weft.Process{holder, sender} {
			for _, to := range []weft.Name{one.Name(), other.Name()} {
				if _, err := p.WaitName(ctx, to); err != nil {
					t.Fatal(err)
				}
			}
		}
		toOne, toOther := holder.Peer(one.Name()), sender.Peer(other.Name())
		if err := toOne.SendDelivered(ctx, 1, nil); err != nil {
			t.Fatal(err)
		}
		if err := toOther.SendDelivered(ctx, 1, nil); err != nil {
			t.Fatal(err)
		}
		// No send waits for its end. If frames are lost, all sends may be in flight at once.
		const rounds = limits.Contexts / 2
		for range rounds {
			if err := toOne.StartSend(new(weft.Op), 1, []byte("held")); err != nil {
				t.Fatal(err)
			}
			if sent, err := toOther.SendMany(ctx, 1, [][]byte{{1}, {2}}); sent != 2 || err != nil {
				t.Fatalf("%d were sent, %v", sent, err)
			}
		}
		for range 2*rounds + 1 {
			if _, err := in.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for range rounds + 1 {
			if _, err := from.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSendManySaysWhatItHasSent(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, p, q := pair(t, n)
		toQ := p.Peer(q.Name())
		messages := [][]byte{{1}, {2}, {3}}
		if sent, err := p.Peer(weft.Name{App: "nobody"}).SendMany(ctx, 1, messages); sent != 0 || !errors.Is(err, weft.ErrNameUnknown) {
			t.Errorf("to a name that no process has: %d, %v", sent, err)
		}
		if sent, err := toQ.SendMany(ctx, weft.AnyTag, messages); sent != 0 || !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("with any tag: %d, %v", sent, err)
		}
		if sent, err := toQ.SendMany(ctx, 1, nil); sent != 0 || err != nil {
			t.Errorf("nothing: %d, %v", sent, err)
		}
		// The very first message waits until the pair is open, and may arrive although its
		// SendMany fails.
		if err := toQ.SendDelivered(ctx, 1, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Recv(ctx, p.Name(), 1, nil); err != nil {
			t.Fatal(err)
		}
		messages[1] = make([]byte, 1<<20) // q does not receive it
		given, giveUp := context.WithCancel(ctx)
		go func() {
			if _, err := q.Recv(ctx, p.Name(), 1, make([]byte, 1)); err != nil {
				t.Errorf("the first: %v", err)
			}
			giveUp()
		}()
		if sent, err := toQ.SendMany(given, 1, messages); sent != 1 || !errors.Is(err, context.Canceled) {
			t.Errorf("with one that waits: %d, %v", sent, err)
		}
	})
}

func TestAnInboxAnswersCalls(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, p, q := pair(t, n)
		toQ := p.Peer(q.Name())
		in := inbox(t, q, p.Name(), 1, 0)
		var answered sync.WaitGroup
		defer answered.Wait() // q must not end before its last reply has left
		answered.Go(func() {
			for range 3 {
				m, err := in.Next(ctx)
				if err != nil || !m.IsCall() || q.Reply(ctx, m, m.Data, []byte("!")) != nil {
					t.Errorf("%v, is a call: %v", err, err == nil && m.IsCall())
					return
				}
			}
		})
		for i := range 3 {
			reply := make([]byte, 10)
			m, err := toQ.Call(ctx, 1, fmt.Append(nil, i), reply)
			if err != nil || string(reply[:m.Len]) != fmt.Sprint(i, "!") {
				t.Fatalf("call %d: %q, %v", i, reply[:m.Len], err)
			}
		}
	})
}

func TestNextEndsWithItsContextAndLosesNothing(t *testing.T) { // decision 9
	links(t, func(t *testing.T, n *network) {
		ctx, p, q := pair(t, n)
		in := inbox(t, q, p.Name(), 1, 0)
		for i := range byte(20) {
			short, cancel := context.WithTimeout(ctx, time.Duration(i)*50*time.Microsecond)
			_, err := in.Next(short)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("nothing was sent, and Next ends with %v", err)
			}
			if err := p.Send(ctx, q.Name(), 1, []byte{i}); err != nil {
				t.Fatal(err)
			}
			if m, err := in.Next(ctx); err != nil || m.Data[0] != i {
				t.Fatalf("message %d came as %v, %v", i, m.Data, err)
			}
		}
	})
}

func TestAClosedInboxLeavesItsMessagesToOthers(t *testing.T) { // decision 9
	links(t, func(t *testing.T, n *network) {
		ctx, p, q := pair(t, n)
		toQ := p.Peer(q.Name())
		for _, read := range []int{0, 1, 7} {
			in := inbox(t, q, p.Name(), 1, 0)
			for i := range byte(8) {
				if err := toQ.SendDelivered(ctx, 1, []byte{i}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range read {
				if m, err := in.Next(ctx); err != nil || int(m.Data[0]) != i {
					t.Fatalf("message %d came as %v, %v", i, m.Data, err)
				}
			}
			in.Close()
			in.Close()
			if _, err := in.Next(ctx); !errors.Is(err, weft.ErrClosed) {
				t.Errorf("a closed Inbox says %v", err)
			}
			for i := read; i < 8; i++ {
				buf := make([]byte, 1)
				if _, err := q.Recv(ctx, p.Name(), 1, buf); err != nil || int(buf[0]) != i {
					t.Fatalf("after %d were read, message %d came as %v, %v", read, i, buf, err)
				}
			}
		}
	})
}

func TestAnInboxEndsWithItsSenderAndWithItsProcess(t *testing.T) { // decision 7
	links(t, func(t *testing.T, n *network) {
		ctx, p, q := pair(t, n)
		toQ := p.Peer(q.Name())
		in := inbox(t, q, p.Name(), 1, 0)
		// The first Next posts the receive of the Inbox. A receive for a name that no process has
		// any more waits for the next process with that name.
		if err := toQ.SendDelivered(ctx, 1, []byte("words")); err != nil {
			t.Fatal(err)
		}
		if m, err := in.Next(ctx); err != nil || string(m.Data) != "words" {
			t.Fatalf("%q, %v", m.Data, err)
		}
		if err := toQ.SendDelivered(ctx, 1, []byte("last words")); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if m, err := in.Next(ctx); err != nil || string(m.Data) != "last words" {
			t.Fatalf("%q, %v", m.Data, err)
		}
		if _, err := in.Next(ctx); !errors.Is(err, weft.ErrProcessGone) {
			t.Errorf("the sender has gone: %v", err)
		}
		other := inbox(t, q, weft.AnyProcess, 1, 0)
		ended := make(chan error, 1)
		go func() {
			_, err := other.Next(ctx)
			ended <- err
		}()
		// Next waits by now, or finds the process closed: in both cases it must end.
		time.Sleep(time.Millisecond)
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, weft.ErrClosed) {
			t.Errorf("the process is closed: %v", err)
		}
	})
}

func TestAnInboxWhoseBatchWasFullWhenItsSenderWentSaysSoWhenAllIsRead(t *testing.T) { // decision 7
	links(t, func(t *testing.T, n *network) {
		ctx, p, q := pair(t, n)
		toQ := p.Peer(q.Name())
		in := inbox(t, q, p.Name(), 1, 0)
		const many = 5000 // more than fit in a batch
		messages := make([][]byte, many)
		sent := make(chan error, 1)
		go func() {
			_, err := toQ.SendMany(ctx, 1, messages)
			sent <- errors.Join(err, toQ.SendDelivered(ctx, 1, []byte("the last")), p.Close())
		}()
		for i := range many + 1 {
			if i == many/2 { // by now every message has arrived or waits for credit
				time.Sleep(10 * time.Millisecond)
			}
			if _, err := in.Next(ctx); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if _, err := in.Next(ctx); !errors.Is(err, weft.ErrProcessGone) {
			t.Errorf("the sender has gone: %v", err)
		}
	})
}

// The sender of one Inbox ends. Then another Inbox takes the receive context, before the program
// asks the first Inbox again or closes it.
func TestAnInboxLeavesItsContextToAnotherWhenItsSenderHasEnded(t *testing.T) { // decision 7
	for _, closed := range []bool{false, true} {
		ctx := t.Context()
		nics := hosts(t, on(weft.Config{Link: weft.NewSwitch().Link()}), 2)
		open := func(nic int, app string) *weft.Process {
			p, err := nics[nic].Attach(ctx, weft.Name{App: app})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		q, a, b := open(0, "q"), open(1, "a"), open(1, "b")
		for _, p := range []*weft.Process{a, b} {
			_, err := q.WaitName(ctx, p.Name())
			if _, back := p.WaitName(ctx, q.Name()); err != nil || back != nil {
				t.Fatal(err, back)
			}
		}
		gets := func(in *weft.Inbox, want string) {
			t.Helper()
			if m, err := in.Next(ctx); err != nil || string(m.Data) != want {
				t.Fatalf("closed %v: %.20q, %v; want %q", closed, m.Data, err, want)
			}
		}
		send := func(p *weft.Process, msg string) {
			t.Helper()
			if err := p.Peer(q.Name()).SendDelivered(ctx, 5, []byte(msg)); err != nil {
				t.Fatal(err)
			}
		}
		first, second := inbox(t, q, a.Name(), weft.AnyTag, 0), inbox(t, q, b.Name(), weft.AnyTag, 0)
		send(a, "one")
		gets(first, "one") // the first Next posts the receive
		send(a, "two")
		var gone weft.Op
		if err := q.StartRecv(&gone, a.Name(), 9, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		// These take every other receive context; gone takes the straight way.
		others := make([]weft.Op, 63)
		for i := range others {
			if err := q.StartRecvDatagram(&others[i], 7, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := gone.Wait(ctx); !errors.Is(err, weft.ErrProcessGone) {
			t.Fatal(err)
		}
		for i := range 3 {
			msg := fmt.Sprint("other ", i)
			send(b, msg)
			gets(second, msg)
		}
		if closed {
			first.Close()
		} else {
			gets(first, "two")
			if m, err := first.Next(ctx); !errors.Is(err, weft.ErrProcessGone) {
				t.Errorf("nothing more was sent, and %.20q comes, %v", m.Data, err)
			}
		}
		long := strings.Repeat("x", 50_000)
		for range 40 { // the NIC has to check how far the ring was read
			send(b, long)
			gets(second, long)
		}
	}
}

func TestAnInboxThatCannotBeIsRefused(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		_, p, _ := pair(t, n)
		if _, err := p.Inbox(weft.Name{App: "No name"}, 1, 0); !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("of a name that cannot be: %v", err)
		}
		for _, size := range []int{-1, 1<<30 + 1} {
			if _, err := p.Inbox(p.Name(), 1, size); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), fmt.Sprint(size)) {
				t.Errorf("of %d bytes: %v", size, err)
			}
		}
	})
}

// scribble fills b with bytes that only message i has.
func scribble(b []byte, i int) {
	for k := range b {
		b[k] = byte(k*7 + k>>8 + i*31)
	}
}
