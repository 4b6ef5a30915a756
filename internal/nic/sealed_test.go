package nic

import (
	"bytes"
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// What a process has registered to be read only its own commands do not write either, whatever its library would have said: the NIC may have
// it mapped so.
func TestNoCommandOfAProcessWritesToItsMemoryThatMayBeReadOnly(t *testing.T) {
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "a/0"), f.describer(1, "b/0", 4096)
	f.known("a/0", "b/0")
	mem := pattern(4096, 1)
	var err error
	if b.region, _, err = b.e.AddMemory(b.slot, Memory{Bytes: mem, Sealed: true}); err != nil {
		t.Fatal(err)
	}
	theirs := pattern(4096, 2)
	id, key, err := a.e.AddRegion(a.slot, theirs)
	if err != nil {
		t.Fatal(err)
	}
	remote := vni.Remote{NIC: a.e.ID(), Slot: a.slot, Gen: a.gen, Region: id, Key: key}
	described := func(c vni.Code) int { // all at once, not refilled
		i, _ := b.v.TakeSend()
		b.v.ClearDescriptors(false, i)
		b.v.SetDescriptor(false, i, 0, vni.Descriptor{Region: b.region, Len: 4096})
		b.v.SetSend(i, &vni.SendContext{Receiver: a.name, Flags: vni.WantNotify, Token: b.token(i), PoolIndex: vni.NoPool, Size: 1, Len: 4096, Remote: remote})
		b.post(vni.Command{Code: c, Context: uint16(i)})
		return i
	}
	if c := b.memory(vni.CodeGet, remote, b.cut(4096, 1000)).ends(); c.Status != vni.StatusBadRegion {
		t.Errorf("a get whose descriptors are refilled ends with %v", c.Status)
	}
	if c := b.finish(false, described(vni.CodeGet)); c.Status != vni.StatusBadRegion {
		t.Errorf("a get ends with %v", c.Status)
	}
	if c := b.recvPieces(1, b.cut(4096, 1000)).ends(); c.Status != vni.StatusBadRegion {
		t.Errorf("a receive whose descriptors are refilled ends with %v", c.Status)
	}
	i, _ := b.v.TakeReceive()
	b.v.ClearDescriptors(true, i)
	b.v.SetDescriptor(true, i, 0, vni.Descriptor{Region: b.region, Len: 4096})
	b.v.SetReceive(i, &vni.ReceiveContext{Tag: 1, Flags: vni.WantNotify, PoolIndex: vni.NoPool, Size: 1, Len: 4096})
	b.post(vni.Command{Code: vni.CodeReceive, Context: uint16(i)})
	if c := b.finish(true, i); c.Status != vni.StatusBadRegion {
		t.Errorf("a receive ends with %v", c.Status)
	}
	if !bytes.Equal(mem, pattern(4096, 1)) {
		t.Error("the memory has changed")
	}
	if c := b.finish(false, described(vni.CodePut)); c.Status != vni.StatusOK || !bytes.Equal(theirs, mem) {
		t.Errorf("a put from there ends with %v", c.Status)
	}
	f.noLeaks()
}
