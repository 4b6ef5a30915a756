package nic

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/vni"
)

// A command in the queue names memory that the engine will use: until its operation ends, the
// region stays.
func TestARegionIsBusyWithACommandThatNoPollHasTaken(t *testing.T) {
	const n = 100_000 // asks for permission
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	theirs := make([]byte, n)
	id, key, err := b.e.AddRegion(b.slot, theirs)
	if err != nil {
		t.Fatal(err)
	}
	remote := vni.Remote{NIC: b.e.ID(), Slot: b.slot, Gen: b.gen, Region: id, Key: key}
	for _, x := range []struct {
		what    string
		receive bool
		post    func(mem []byte) int
		meet    func()
	}{
		{"a send", false, func(mem []byte) int { return a.send("b/0", 1, 0, mem) }, func() { b.finish(true, b.recv("a/0", 1, 0, make([]byte, n))) }},
		{"a receive", true, func(mem []byte) int { return a.recv("b/0", 1, 0, mem) }, func() { b.finish(false, b.send("a/0", 1, 0, make([]byte, n-1000))) }},
		{"a put", false, func(mem []byte) int {
			return a.start(vni.CodePut, &vni.SendContext{Flags: vni.WantNotify, Remote: remote}, mem)
		}, func() {}},
		{"a get", false, func(mem []byte) int {
			return a.start(vni.CodeGet, &vni.SendContext{Flags: vni.WantNotify, Remote: remote}, mem)
		}, func() {}},
	} {
		mem := pattern(n, 1)
		id, _, err := a.e.AddRegion(a.slot, mem)
		if err != nil {
			t.Fatal(err)
		}
		ctx := x.post(mem[1000:])
		if err := a.e.RemoveRegion(f.now, a.slot, a.gen, id); !errors.Is(err, ErrRegionBusy) {
			t.Errorf("%s is in the queue, and the region is removed: %v", x.what, err)
		}
		x.meet()
		if c := a.finish(x.receive, ctx); c.Status != vni.StatusOK {
			t.Errorf("%s ends with %v", x.what, c.Status)
		}
		if err := a.e.RemoveRegion(f.now, a.slot, a.gen, id); err != nil {
			t.Errorf("%s has ended: %v", x.what, err)
		}
	}
	f.noLeaks()
}

// Ids are reused. A descriptor in the queue must not come to mean another region that has got the
// id meanwhile.
func TestADescriptorInTheQueueKeepsItsRegion(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.describer(0, "a/0", 4096), f.process(1, "b/0")
	f.known("a/0", "b/0")
	copy(a.mem, pattern(4096, 1))
	got := make([]byte, 4096)
	r := b.recv("a/0", 1, 0, got)
	i, _ := a.v.TakeSend()
	a.v.ClearDescriptors(false, i)
	a.v.SetDescriptor(false, i, 0, vni.Descriptor{Region: a.region, Len: 4096})
	a.v.SetSend(i, &vni.SendContext{Receiver: b.name, Tag: 1, Flags: vni.WantNotify, Token: a.token(i), PoolIndex: vni.NoPool, Size: 1, Len: 4096})
	a.post(vni.Command{Code: vni.CodeSend, Context: uint16(i)})
	if err := a.e.RemoveRegion(f.now, a.slot, a.gen, a.region); !errors.Is(err, ErrRegionBusy) {
		t.Errorf("a send from the region is in the queue, and the region is removed: %v", err)
		if _, _, err := a.e.AddRegion(a.slot, make([]byte, 4096)); err != nil {
			t.Error(err)
		}
	}
	if c := b.finish(true, r); c.Status != vni.StatusOK || !bytes.Equal(got, pattern(4096, 1)) {
		t.Errorf("the receive ends with %v; the bytes are the region's: %v", c.Status, bytes.Equal(got, pattern(4096, 1)))
	}
	if c := a.finish(false, i); c.Status != vni.StatusOK {
		t.Errorf("the send ends with %v", c.Status)
	}
	f.noLeaks()
}

// The handle of a part means nothing once its region is closed: the memory may be gone.
func TestPartsOfARegionEndWithIt(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	id, _, err := b.e.AddRegion(b.slot, make([]byte, 1000))
	if err != nil {
		t.Fatal(err)
	}
	part, key, err := b.e.AddPart(b.slot, id, 100, 200, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []vni.Status{vni.StatusOK, vni.StatusBadRegion} {
		remote := vni.Remote{NIC: b.e.ID(), Slot: b.slot, Gen: b.gen, Region: part, Key: key}
		for _, code := range []vni.Code{vni.CodePut, vni.CodeGet} {
			if c := a.finish(false, a.start(code, &vni.SendContext{Flags: vni.WantNotify, Remote: remote}, make([]byte, 200))); c.Status != want {
				t.Errorf("a %v ended with %v, want %v", code, c.Status, want)
			}
		}
		if want == vni.StatusOK {
			err = b.e.RemoveRegion(f.now, b.slot, b.gen, id)
		}
	}
	if err != nil {
		t.Error(err)
	}
	f.noLeaks()
}

// A part of a region that may not be written may not be written either, whatever the part is
// opened for.
func TestAPartOfASealedRegionIsSealed(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	id, _, err := b.e.AddMemory(b.slot, Memory{Bytes: make([]byte, 1000), Sealed: true})
	if err != nil {
		t.Fatal(err)
	}
	part, key, err := b.e.AddPart(b.slot, id, 0, 1000, false)
	if err != nil {
		t.Fatal(err)
	}
	remote := vni.Remote{NIC: b.e.ID(), Slot: b.slot, Gen: b.gen, Region: part, Key: key}
	for code, want := range map[vni.Code]vni.Status{vni.CodePut: vni.StatusBadRegion, vni.CodeGet: vni.StatusOK} {
		if c := a.finish(false, a.start(code, &vni.SendContext{Flags: vni.WantNotify, Remote: remote}, make([]byte, 1000))); c.Status != want {
			t.Errorf("a %v ended with %v, want %v", code, c.Status, want)
		}
	}
}

// Reach is called with the use of the memory, writing for a PUT and reading for a GET: the memory
// may be mapped read-only.
func TestMemoryIsAskedForAsItWillBeUsed(t *testing.T) {
	eachPlace(t, func(t *testing.T, f *fabric, a, b *tester) {
		var asked []bool
		id, key, err := b.e.AddMemory(b.slot, Memory{Bytes: make([]byte, 100), Reach: func(part []byte, writes bool) bool {
			asked = append(asked, writes)
			return !writes
		}})
		if err != nil {
			t.Fatal(err)
		}
		remote := vni.Remote{NIC: b.e.ID(), Slot: b.slot, Gen: b.gen, Region: id, Key: key}
		for code, want := range map[vni.Code]vni.Status{vni.CodePut: vni.StatusBadRegion, vni.CodeGet: vni.StatusOK} {
			asked = nil
			c := a.finish(false, a.start(code, &vni.SendContext{Flags: vni.WantNotify, Remote: remote}, make([]byte, 100)))
			if c.Status != want || len(asked) != 1 || asked[0] != (code == vni.CodePut) {
				t.Errorf("a %v ended with %v; asked whether it may be written: %v", code, c.Status, asked)
			}
		}
	})
}

// An operation that uses its memory keeps a region open. A part only gives others access, and ends
// at once.
func TestAPartEndsThoughItsOwnerUsesTheMemory(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	a := f.process(0, "a/0")
	mem := make([]byte, 1000)
	id, _, err := a.e.AddRegion(a.slot, mem)
	if err != nil {
		t.Fatal(err)
	}
	part, _, err := a.e.AddPart(a.slot, id, 0, 1000, false)
	if err != nil {
		t.Fatal(err)
	}
	a.recv("", 1, 0, mem)
	if err := a.e.RemoveRegion(f.now, a.slot, a.gen, part); err != nil {
		t.Errorf("the part: %v", err)
	}
	if err := a.e.RemoveRegion(f.now, a.slot, a.gen, id); !errors.Is(err, ErrRegionBusy) {
		t.Errorf("the region: %v", err)
	}
}

// The cookies, indices and first numbers that a NIC shows to peers must not reveal its region
// keys.
func TestRegionKeysComeFromAStreamOfTheirOwn(t *testing.T) {
	want := secret.Seeded(1) // the stream of NIC 1 in newFabric
	keys := []uint64{want.Uint64(secret.RegionKey), want.Uint64(secret.RegionKey)}
	for _, nics := range []int{2, 4} { // with few and with many sessions
		f := newFabric(t, nics, fault.Config{})
		a := f.process(0, "a/0")
		for n, key := range keys {
			if _, got, err := a.e.AddRegion(a.slot, make([]byte, 100)); err != nil || got != key {
				t.Errorf("with %d NICs region %d has key %x: %v; expected %x", nics, n, got, err, key)
			}
		}
	}
}
