package weft_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weftnet/weft"
)

// In the steady state, a program's operations allocate no memory on any link: neither in the
// links, nor in the NICs, nor in the processes.
func TestMessagesInTheSteadyStateAllocateNothing(t *testing.T) { // P12
	if testing.Short() {
		t.Skip("short runs may be for the race detector, with which system calls allocate")
	}
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		for _, size := range []int{64, 4 << 10, 256 << 10} {
			if got := steadyAllocs(exchanging(t, ctx, a, b, size)); got != 0 {
				t.Errorf("%d bytes there and back: %v allocations", size, got)
			}
		}
	})
}

// steadyAllocs returns the allocations of a turn in the steady state. At first the processes ask
// for names, pools grow while frames are lost, and the kernel reports the neighbours and routes
// of a new interface, for which the link then asks.
func steadyAllocs(turn func()) float64 {
	got := 1.0
	for try := 0; try < 40 && got != 0; try++ {
		got = testing.AllocsPerRun(50, turn)
	}
	return got
}

// exchanging returns a function that sends a message to b, and one of the same size back to a.
func exchanging(t *testing.T, ctx context.Context, a, b *weft.Process, size int) func() {
	t.Helper()
	msg, buf := make([]byte, size), make([]byte, size)
	var ofA, ofB [2]weft.Op // the send and the receive of each process
	oneWay := func(from, to *weft.Process, sent, received *weft.Op) {
		if err := to.StartRecv(received, from.Name(), 1, buf); err != nil {
			t.Fatal(err)
		}
		if err := from.Peer(to.Name()).StartSend(sent, 1, msg); err != nil {
			t.Fatal(err)
		}
		if m, err := received.Wait(ctx); err != nil || m.Len != size {
			t.Fatalf("%+v, %v", m, err)
		}
		if _, err := sent.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return func() { oneWay(a, b, &ofA[0], &ofB[1]); oneWay(b, a, &ofB[0], &ofA[1]) }
}

// No form that takes an Op allocates memory.
func TestEveryStartFormIntoAnOpAllocatesNothing(t *testing.T) { // P12
	if testing.Short() {
		t.Skip("short runs may be for the race detector, with which system calls allocate")
	}
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		o, err := a.Port(5)
		if err != nil {
			t.Fatal(err)
		}
		of, err := b.Port(5)
		if err != nil {
			t.Fatal(err)
		}
		region, err := b.Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		msg, buf, h := make([]byte, 100), make([]byte, 100), region.Handle()
		var ofA, alsoOfA, ofB weft.Op
		for what, begin := range map[string]func() (other *weft.Op, err error){
			"StartSend": func() (*weft.Op, error) {
				return &ofB, errors.Join(b.StartRecv(&ofB, a.Name(), 1, buf), a.Peer(b.Name()).StartSend(&ofA, 1, msg))
			},
			"StartSendDelivered": func() (*weft.Op, error) {
				return &ofB, errors.Join(b.StartRecv(&ofB, weft.AnyProcess, weft.AnyTag, buf), a.Peer(b.Name()).StartSendDelivered(&ofA, 1, msg))
			},
			"those of a port": func() (*weft.Op, error) {
				return &ofB, errors.Join(of.StartRecv(&ofB, weft.AnyProcess, weft.AnyTag, buf), o.Peer(b.Name()).StartSend(&ofA, 1, msg))
			},
			"those by address": func() (*weft.Op, error) {
				return &ofB, errors.Join(of.PeerAt(a.Address()).StartRecv(&ofB, weft.AnyTag, buf), o.PeerAt(b.Address()).StartSend(&ofA, 1, msg))
			},
			"StartPut and StartGet": func() (*weft.Op, error) {
				return &alsoOfA, errors.Join(a.StartPut(&ofA, h, 0, msg), a.StartGet(&alsoOfA, h, 1000, buf))
			},
			"datagrams": func() (*weft.Op, error) {
				return &alsoOfA, errors.Join(a.StartRecvDatagram(&alsoOfA, 1, buf), a.PeerAt(a.Address()).StartSendDatagram(&ofA, 1, msg))
			},
		} {
			got := steadyAllocs(func() {
				other, err := begin()
				if err != nil {
					t.Fatal(what, err)
				}
				for _, op := range [...]*weft.Op{&ofA, other} {
					if _, err := op.Wait(ctx); err != nil {
						t.Fatal(what, err)
					}
				}
			})
			if got != 0 {
				t.Errorf("%s: %v allocations", what, got)
			}
		}
	})
}
