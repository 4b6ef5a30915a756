package nic

import (
	"bytes"
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// describe posts a command on a send context whose memory is n bytes of a region, described all at
// once.
func (p *describer) describe(cmd vni.Command, region uint32, n int, sc vni.SendContext) int {
	i, _ := p.v.TakeSend()
	p.v.ClearDescriptors(false, i)
	p.v.SetDescriptor(false, i, 0, vni.Descriptor{Region: region, Len: uint64(n)})
	sc.Flags, sc.Token, sc.PoolIndex, sc.Size, sc.Len = vni.WantNotify, p.token(i), vni.NoPool, 1, uint64(n)
	p.v.SetSend(i, &sc)
	cmd.Context = uint16(i)
	p.post(cmd)
	return i
}

// Memory that a process has registered read-only is not written even by its own commands, whatever
// its library claims: the NIC may have it mapped read-only.
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
	described := func(c vni.Code) int {
		return b.describe(vni.Command{Code: c}, b.region, 4096, vni.SendContext{Receiver: a.name, Remote: remote})
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

// A command about a group is refused if it writes to read-only memory; a command that only reads
// it is not.
func TestNoCommandAboutAGroupWritesToMemoryThatMayBeReadOnly(t *testing.T) {
	const all, sum = vni.AllRanks, uint64(vni.SumInt64) << 32
	f := newFabric(t, 2, fault.Config{})
	a, b := f.process(0, "m/0"), f.describer(1, "m/1", 4096)
	f.known("m/0", "m/1")
	mem := pattern(4096, 1)
	sealed, _, err := b.e.AddMemory(b.slot, Memory{Bytes: mem, Sealed: true})
	if err != nil {
		t.Fatal(err)
	}
	join := func(region uint32) int {
		return b.describe(vni.Command{Code: vni.CodeJoinGroup, Size: 2}, region, 2*vni.RosterBytes, vni.SendContext{Receiver: teamKey})
	}
	b.wantStatus(join(sealed), vni.StatusBadRegion)
	j := a.startJoin("team", 0, 2, 0, make([]byte, 2*vni.RosterBytes))
	group := b.wantStatus(join(b.region), vni.StatusOK).Gen
	own := a.wantStatus(j, vni.StatusOK).Gen
	do := func(code vni.Code, region uint32, tag uint64) int {
		return b.describe(vni.Command{Code: code, Group: group}, region, 16, vni.SendContext{Tag: tag})
	}
	for what, i := range map[string]int{
		"a broadcast of another member's": do(vni.CodeBroadcast, sealed, 0),
		"a reduction whose root it is":    do(vni.CodeReduce, sealed, 1|sum),
		"a reduction for all":             do(vni.CodeReduce, sealed, all|sum),
	} {
		if c := b.finish(false, i); c.Status != vni.StatusBadRegion {
			t.Errorf("%s ends with %v", what, c.Status)
		}
	}
	buf := make([]byte, 16)
	i := do(vni.CodeBroadcast, sealed, 1)
	a.wantStatus(a.broadcast(own, 1, buf), vni.StatusOK)
	b.wantStatus(i, vni.StatusOK)
	if !bytes.Equal(buf, mem[:16]) {
		t.Errorf("a broadcast of that memory brings % x", buf)
	}
	i = do(vni.CodeReduce, sealed, sum)
	a.wantStatus(a.reduce(own, 0, vni.SumInt64, buf), vni.StatusOK)
	b.wantStatus(i, vni.StatusOK)
	if !bytes.Equal(mem, pattern(4096, 1)) {
		t.Error("the memory has changed")
	}
}
