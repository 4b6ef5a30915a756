//go:build unix

package weft_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/weftnet/weft"
)

// A started operation uses its region from its start, even before the NIC has looked at the
// operation.
func TestARegionStaysWhileAnOperationThatWasStartedUsesIt(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{}))
	if _, err := a.WaitName(ctx, b.Name()); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<20)
	for round := range uint64(20) {
		open := func() (*weft.Region, error) { return a.Register(pages(t, 1<<20/os.Getpagesize()), weft.ReadWrite) }
		if round%2 == 1 {
			// A region of this size is mapped, and Close unmaps it, like one of huge pages.
			open = func() (*weft.Region, error) { return a.Alloc(64 << 20) }
		}
		r, err := open()
		if err != nil {
			t.Fatal(err)
		}
		// A message of this length asks for permission, which the receiver gives below.
		mem := r.Bytes()[:1<<20]
		copy(mem, pattern(round, len(mem)))
		var op weft.Op
		if err := a.Peer(b.Name()).StartSend(&op, 1, mem); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); !errors.Is(err, weft.ErrRegionInUse) {
			t.Fatalf("round %d: a send that was started has not ended, and the region is closed: %v; expected ErrRegionInUse", round, err)
		}
		if m, err := b.Recv(ctx, a.Name(), 1, got); err != nil || m.Len != len(mem) || !bytes.Equal(got, mem) {
			t.Fatalf("round %d: %v, %v; the bytes are right: %v", round, m, err, bytes.Equal(got, mem))
		}
		if _, err := op.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A valid size may exceed the memory of the system. If the system can map any number of such
// regions, the limit on the number of regions applies.
func TestMemoryThatIsNotThereIsAnErrorOfAlloc(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var all []*weft.Region
	for err == nil {
		var r *weft.Region
		if r, err = p.Alloc(64 << 30); err == nil {
			all = append(all, r)
		}
	}
	if !errors.Is(err, weft.ErrNoMemory) {
		t.Errorf("region %d of 64 GiB: %v; expected ErrNoMemory", len(all), err)
	}
	for _, r := range all {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A region that is mapped outside of Go's heap works like any other.
func TestALargeRegionIsARegionLikeAnyOther(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{}))
	const n = 64<<20 + 5
	for range 2 {
		r, err := b.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Put(ctx, r.Handle(), n-4, []byte("last")); err != nil || string(r.Bytes()[n-4:]) != "last" || len(r.Bytes()) != n {
			t.Errorf("put to the end of %d bytes: %v", len(r.Bytes()), err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The number of regions and shares is limited. Beyond the limit, the error is ErrNoMemory.
func TestARegionOrShareTooManyIsRefusedForLackOfRoom(t *testing.T) {
	p, err := weft.Open(t.Context(), weft.Config{Name: weft.Name{App: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fillRegions(t, p)
}

// fillRegions makes a process open the maximum number of regions and shares, and one more.
func fillRegions(t *testing.T, p *weft.Process) {
	t.Helper()
	r, err := p.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	var s *weft.Share
	for n := 1; n < 1024; n++ {
		if s, err = r.Share(n%100, 1, weft.ReadOnly); err != nil {
			t.Fatalf("share %d: %v", n, err)
		}
	}
	if _, err := r.Share(0, 1, weft.ReadOnly); !errors.Is(err, weft.ErrNoMemory) {
		t.Errorf("a share too many: %v; expected ErrNoMemory", err)
	}
	if _, err := p.Alloc(100); !errors.Is(err, weft.ErrNoMemory) {
		t.Errorf("a region too many: %v; expected ErrNoMemory", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Alloc(100); err != nil {
		t.Errorf("a region where there is room again: %v", err)
	}
}
