package weft_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft"
)

// A datagram may be lost on each of these links, so the sender repeats it until it arrives.
func TestADatagramIsPutWhereItsReceiveWantsIt(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, p, q := pair(t, n)
		toQ := p.PeerAt(q.Address())
		page, head := make([]byte, 8192), make([]byte, 64)
		for _, size := range []int{0, 1, 8192, 8192 + 64} {
			want := make([]byte, size)
			scribble(want, size)
			var recv weft.Op
			tag := weft.Tag(size)
			if err := q.StartRecvDatagram(&recv, tag, page, head); err != nil {
				t.Fatal(err)
			}
			for done := false; !done; {
				if err := toQ.SendDatagram(ctx, tag, want[:size/3], want[size/3:]); err != nil && !errors.Is(err, weft.ErrUnreachable) {
					t.Fatal(err)
				}
				within, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				m, err := recv.Wait(within)
				cancel()
				if done = !errors.Is(err, context.DeadlineExceeded); !done {
					continue
				}
				if err != nil || m.From != p.Name() || m.Addr != p.Address() || m.Tag != tag || m.Len != size || m.Full != size {
					t.Fatalf("a datagram of %d bytes came as %+v, %v", size, m, err)
				}
			}
			if got := append(bytes.Clone(page), head...); !bytes.Equal(got[:size], want) {
				t.Fatalf("a datagram of %d bytes came with other bytes", size)
			}
		}
	})
}

// Flush sends the datagram that a start form has held back, even if the process makes no other
// call.
func TestAFlushHasADatagramLeave(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, p, q := pair(t, n)
		toQ := p.PeerAt(q.Address())
		for came := false; !came; {
			var recv, send weft.Op
			if err := errors.Join(q.StartRecvDatagram(&recv, 1, make([]byte, 5)), toQ.StartSendDatagram(&send, 1, []byte("hello"))); err != nil {
				t.Fatal(err)
			}
			p.Flush()
			// The datagram may be lost.
			within, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			m, err := recv.Wait(within)
			cancel()
			if came = err == nil; came && m.Len != 5 {
				t.Errorf("%d bytes have come", m.Len)
			} else if !came {
				recv.Cancel()
				_, _ = recv.Wait(ctx)
			}
			if _, err := send.Wait(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		p.Flush() // on a closed process, Flush does nothing
	})
}

func TestADatagramThatCannotBeIsRefused(t *testing.T) {
	ctx, p, q := pair(t, on(weft.Config{Link: weft.NewSwitch().Link()}))
	toQ := p.PeerAt(q.Address())
	var op weft.Op
	for what, err := range map[string]error{
		"that is too long": toQ.SendDatagram(ctx, 1, make([]byte, weft.MaxDatagram+1)),
		"with AnyTag":      toQ.SendDatagram(ctx, weft.AnyTag),
		"to nowhere":       p.PeerAt(weft.Address{}).StartSendDatagram(&op, 1),
	} {
		if !errors.Is(err, weft.ErrBadArgument) {
			t.Errorf("a datagram %s: %v, want ErrBadArgument", what, err)
		}
	}
	long := toQ.StartSendDatagram(&op, 1, make([]byte, weft.MaxDatagram), []byte{1})
	if want := fmt.Sprintf("%d bytes; expected at most %d", weft.MaxDatagram+1, weft.MaxDatagram); long == nil || !strings.Contains(long.Error(), want) {
		t.Errorf("a datagram that is too long: %v; expected it to say %q", long, want)
	}
	if err := p.PeerAt(weft.Address{NIC: 99, Slot: 1, Generation: 1}).SendDatagram(ctx, 1); !errors.Is(err, weft.ErrUnreachable) {
		t.Errorf("a datagram to a NIC that is not there: %v, want ErrUnreachable", err)
	}
}

// The NIC releases a receive before it reports the end of the receive. So the Op may be used
// again at once, whichever goroutine polls. The race detector checks this.
func TestReceivesOfDatagramsAreBegunAgainAtOnceWhicheverGoroutinePolls(t *testing.T) {
	ctx, p, q := pair(t, on(weft.Config{Link: weft.UDP("127.0.0.1:0")}))
	const receivers, posted, each = 4, 16, 400
	var left atomic.Int32
	left.Store(receivers)
	for tag := range weft.Tag(receivers) {
		go func() {
			defer left.Add(-1)
			var ops [posted]weft.Op
			page := make([]byte, 4096)
			begin := func(i int) bool {
				err := q.StartRecvDatagram(&ops[i], tag, page[256*i:][:256])
				if err != nil {
					t.Error(err)
				}
				return err == nil
			}
			for i := range ops {
				if !begin(i) {
					return
				}
			}
			for got := 0; got < each && ctx.Err() == nil; {
				for i := range ops {
					m, done, err := ops[i].Test()
					if !done {
						continue
					}
					if got++; err != nil || m.Len != 200 || page[256*i] != byte(tag)+1 || page[256*i+199] != byte(tag)+1 {
						t.Errorf("a datagram came as %+v, %v", m, err)
						return
					}
					if !begin(i) {
						return
					}
				}
			}
		}()
	}
	toQ := p.PeerAt(q.Address())
	for i := 0; left.Load() > 0; i++ {
		tag := weft.Tag(i % receivers)
		if err := toQ.SendDatagram(ctx, tag, bytes.Repeat([]byte{byte(tag) + 1}, 200)); err != nil && !errors.Is(err, weft.ErrNoMemory) {
			t.Fatal(err)
		}
	}
}
