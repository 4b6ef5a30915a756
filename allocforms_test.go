package weft_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/weftnet/weft"
)

// allocForms returns one turn of each form of operation between a and b. The function to returns
// a's Peer for b, and from returns b's Peer for a.
func allocForms(t *testing.T, ctx context.Context, a, b *weft.Process, to, from func() weft.Peer) map[string]func() error {
	t.Helper()
	region, err := b.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	h := region.Handle()
	msg, buf := make([]byte, 100), make([]byte, 100)
	many := [][]byte{msg, msg[:50], msg, msg[:1]}
	var out, also, in weft.Op // two operations of a, one of b
	recv := func(p weft.Peer, err error) error {
		if err != nil {
			return err
		}
		m, err := p.Recv(ctx, 1, buf)
		if err == nil && m.From != a.Name() {
			err = errors.New("a message comes from another process")
		}
		return err
	}
	wait := func(other *weft.Op, begun, alsoBegun error) error {
		if err := errors.Join(begun, alsoBegun); err != nil {
			return err
		}
		_, err := out.Wait(ctx)
		if err == nil {
			_, err = other.Wait(ctx)
		}
		return err
	}
	return map[string]func() error{
		"Send and Recv":  func() error { return recv(from(), to().Send(ctx, 1, msg)) },
		"Send of parts":  func() error { return recv(from(), to().Send(ctx, 1, msg[:7], msg[7:])) },
		"the shorthands": func() error { return recv(b.Peer(a.Name()), a.Send(ctx, b.Name(), 1, msg)) },
		"SendDelivered":  func() error { return recv(from(), to().SendDelivered(ctx, 1, msg)) },
		"TrySend": func() error {
			if !to().TrySend(1, msg) {
				return recv(from(), to().Send(ctx, 1, msg))
			}
			return recv(from(), nil)
		},
		"SendMany": func() error {
			_, err := to().SendMany(ctx, 1, many)
			for range many {
				err = recv(from(), err)
			}
			return err
		},
		"StartSend and StartRecv": func() error {
			return wait(&in, from().StartRecv(&in, 1, buf), to().StartSend(&out, 1, msg))
		},
		"StartSendDelivered": func() error {
			return wait(&in, b.StartRecv(&in, a.Name(), 1, buf), to().StartSendDelivered(&out, 1, msg))
		},
		"SendDatagram": func() error { return sentDatagram(to().SendDatagram(ctx, 9, msg[:50], msg)) },
		"StartSendDatagram to itself": func() error {
			return wait(&also, a.StartRecvDatagram(&also, 1, buf), self(a, to()).StartSendDatagram(&out, 1, msg))
		},
		"Put": func() error { return to().Put(ctx, h, 0, msg) },
		"Get": func() error { return to().Get(ctx, h, 0, buf) },
		"StartPut and StartGet": func() error {
			return wait(&also, to().StartPut(&out, h, 0, msg), to().StartGet(&also, h, 1000, buf))
		},
	}
}

// sentDatagram ignores the error of a link that has no room for a datagram.
func sentDatagram(err error) error {
	if errors.Is(err, weft.ErrNoMemory) {
		return nil
	}
	return err
}

// self returns p's Peer for itself: by name or by address, as in the Peer of.
func self(p *weft.Process, of weft.Peer) weft.Peer {
	if of.Name() == weft.AnyProcess {
		return p.PeerAt(p.Address())
	}
	return p.Peer(p.Name())
}

// eachPeer runs a test with Peers by name and with Peers by address: a's Peer for b, and b's Peer
// for a.
func eachPeer(a, b *weft.Process, test func(how string, to, from func() weft.Peer)) {
	test("by name", func() weft.Peer { return a.Peer(b.Name()) }, func() weft.Peer { return b.Peer(a.Name()) })
	test("by address", func() weft.Peer { return a.PeerAt(b.Address()) }, func() weft.Peer { return b.PeerAt(a.Address()) })
}

// skipWhereTheKernelAllocates skips links with system calls in short runs, which may be for the
// race detector.
func skipWhereTheKernelAllocates(t *testing.T, n *network) {
	t.Helper()
	if testing.Short() && !n.onSwitch() {
		t.Skip("short runs may be for the race detector, with which system calls allocate")
	}
}

func mustAllocateNothing(t *testing.T, how, what string, turn func() error) {
	t.Helper()
	got := steadyAllocs(func() {
		if err := turn(); err != nil {
			t.Fatal(how, what, err)
		}
	})
	if got != 0 {
		t.Errorf("%s %s: %v allocations", what, how, got)
	}
}

func TestEveryFormAllocatesNothingByNameAndByAddress(t *testing.T) { // P12
	links(t, func(t *testing.T, n *network) {
		skipWhereTheKernelAllocates(t, n)
		ctx, a, b := pair(t, n)
		eachPeer(a, b, func(how string, to, from func() weft.Peer) {
			for what, turn := range allocForms(t, ctx, a, b, to, from) {
				if what == "SendMany" && testing.Short() {
					t.Log("SendMany is not looked at: short runs may be for the race detector, with which a sync.Pool forgets")
					continue
				}
				mustAllocateNothing(t, how, what, turn)
			}
		})
	})
}

func TestCallAndReplyAllocateNothing(t *testing.T) { // P12
	links(t, func(t *testing.T, n *network) {
		skipWhereTheKernelAllocates(t, n)
		ctx, a, b := pair(t, n)
		served := make(chan error, 1)
		go func() { served <- reply(ctx, b, a.Name()) }()
		request, answer := make([]byte, 100), make([]byte, 100)
		eachPeer(a, b, func(how string, to, _ func() weft.Peer) {
			mustAllocateNothing(t, how, "Call and Reply", func() error {
				m, err := to().Call(ctx, 2, request, answer)
				if err == nil && m.Len != len(answer) {
					err = errors.New("the reply is short")
				}
				return err
			})
		})
		if err := a.Send(ctx, b.Name(), 2); err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// reply answers calls until it receives a message that is not a call.
func reply(ctx context.Context, p *weft.Process, from weft.Name) error {
	buf := make([]byte, 100)
	for {
		m, err := p.Recv(ctx, from, 2, buf)
		if err != nil || !m.IsCall() {
			return err
		}
		if err := p.Reply(ctx, m, buf[:m.Len]); err != nil {
			return err
		}
	}
}

func TestAnInboxAllocatesNothing(t *testing.T) { // P12
	links(t, func(t *testing.T, n *network) {
		skipWhereTheKernelAllocates(t, n)
		ctx, a, b := pair(t, n)
		msg := make([]byte, 100)
		for what, name := range map[string]weft.Name{"of one sender": a.Name(), "of any sender": weft.AnyProcess} {
			box, err := b.Inbox(name, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			check := func(m weft.Message, err error) error {
				if err == nil && (m.From != a.Name() || len(m.Data) != len(msg)) {
					err = errors.New("another message comes")
				}
				return err
			}
			next, stop := iter.Pull2(box.All(ctx))
			eachPeer(a, b, func(how string, to, _ func() weft.Peer) {
				mustAllocateNothing(t, how, "Inbox.Next "+what, func() error {
					if err := to().Send(ctx, 1, msg); err != nil {
						return err
					}
					return check(box.Next(ctx))
				})
				mustAllocateNothing(t, how, "Inbox.All "+what, func() error {
					if err := to().Send(ctx, 1, msg); err != nil {
						return err
					}
					m, err, _ := next()
					return check(m, err)
				})
			})
			stop()
			box.Close()
		}
	})
}
