package vni

import (
	"errors"
	"runtime"
	"sync"
	"testing"
)

func TestDescriptorsOfAnOperationAreARing(t *testing.T) { // QNIX-22
	for _, receive := range []bool{false, true} {
		_, p, n := newSegment(t, small)
		copy(p.Inline(1), "what a short message has left there: 0123456789 0123456789 0123456789")
		p.ClearDescriptors(receive, 1)
		taken, consumed, filled := uint32(0), uint32(0), uint32(0)
		for range 10 {
			for filled-p.Consumed(receive, 1) < uint32(small.Descriptors) {
				p.SetDescriptor(receive, 1, filled, Descriptor{Region: 3, Offset: uint64(filled) * 100, Len: uint64(filled) + 1})
				filled++
			}
			for {
				d, ok, err := n.Descriptor(receive, 1, taken)
				if err != nil {
					t.Fatal(err)
				}
				if !ok || taken == filled {
					break
				}
				if want := (Descriptor{Region: 3, Flag: DescriptorValid, Offset: uint64(taken) * 100, Len: uint64(taken) + 1}); d != want {
					t.Fatalf("descriptor %d is %+v, want %+v", taken, d, want)
				}
				n.Took(receive, 1)
				taken++
			}
			if taken != filled || p.Taken(receive, 1) != taken {
				t.Fatalf("%d filled, %d taken, the process is told of %d", filled, taken, p.Taken(receive, 1))
			}
			for range 1 + consumed%4 {
				n.Consume(receive, 1, consumed)
				consumed++
			}
			if p.Consumed(receive, 1) != consumed || p.Consumed(receive, 0) != 0 || p.Consumed(!receive, 1) != 0 {
				t.Fatalf("the process is told of %d consumed, not of %d", p.Consumed(receive, 1), consumed)
			}
		}
	}
}

func TestAMalformedDescriptorIsAnArgumentOfItsOperation(t *testing.T) { // decision 10
	s, p, n := newSegment(t, small)
	for _, d := range []Descriptor{{Len: 0}, {Offset: 1 << 40, Len: 1}, {Offset: 1, Len: 1<<64 - 1}} {
		p.SetDescriptor(false, 0, 5, d)
		if _, ok, err := n.Descriptor(false, 0, 5); ok || !errors.Is(err, ErrArgument) {
			t.Errorf("%+v: %v, %v", d, ok, err)
		}
	}
	s.descriptors(sendList, 0)[1].regionFlag = 7 << 32
	if _, ok, err := n.Descriptor(false, 0, 1); ok || !errors.Is(err, ErrArgument) {
		t.Errorf("flag 7: %v, %v", ok, err)
	}
	p.SetSend(0, &SendContext{Flags: Refilled, PoolIndex: 0, Size: 1, Len: 5})
	p.SetReceive(0, &ReceiveContext{Flags: Refilled, PoolIndex: NoPool})
	p.TakeSend()
	p.TakeReceive()
	if _, err := sendOf(n, 0); !errors.Is(err, ErrArgument) {
		t.Errorf("pool pages that are refilled: %v", err)
	}
	if _, err := receiveOf(n, 0); !errors.Is(err, ErrArgument) {
		t.Errorf("a refilled receive of nothing: %v", err)
	}
}

// The process writes a flag, then reads how many descriptors are taken. The NIC writes that count,
// then reads the next flag. So either the NIC finds the new descriptor, or the process posts a
// Refill.
func TestNoDescriptorIsMissed(t *testing.T) {
	_, p, n := newSegment(t, small)
	const total = 20_000
	refills := make(chan struct{}, total)
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		defer wait.Done()
		taken := uint32(0)
		for range refills {
			for {
				_, ok, err := n.Descriptor(false, 0, taken)
				if err != nil {
					t.Error(err)
				}
				if !ok || err != nil {
					break
				}
				n.Consume(false, 0, taken) // at once, so the next round of the ring finds it empty
				taken++
				n.Took(false, 0)
			}
		}
	}()
	posted := 0
	for k := uint32(0); k < total; k++ {
		for k-p.Consumed(false, 0) >= uint32(small.Descriptors) {
			runtime.Gosched()
		}
		p.SetDescriptor(false, 0, k, Descriptor{Len: 1})
		if p.Taken(false, 0) == k {
			refills <- struct{}{}
			posted++
		}
	}
	close(refills)
	wait.Wait()
	if got := p.Taken(false, 0); got != total {
		t.Fatalf("%d of %d descriptors were taken, by %d Refills", got, total, posted)
	}
	t.Logf("%d Refills for %d descriptors", posted, total)
}

// QNIX-22: a descriptor counts only if its flag says that it was filled.
func TestADescriptorThatWasNotFilledIsRefused(t *testing.T) {
	_, p, n := newSegment(t, small)
	i, _ := p.TakeSend()
	p.ClearDescriptors(false, i)
	p.SetDescriptors(false, i, []Descriptor{{Region: 1, Offset: 2, Len: 3}})
	d, err := n.Descriptors(false, i, 1, nil)
	if err != nil || len(d) != 1 || d[0] != (Descriptor{Region: 1, Flag: DescriptorValid, Offset: 2, Len: 3}) {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := n.Descriptors(false, i, 2, nil); !errors.Is(err, ErrArgument) {
		t.Errorf("of which the second was not filled: %+v, %v", d, err)
	}
}
