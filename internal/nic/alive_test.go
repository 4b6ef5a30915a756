package nic

import (
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// A GET of no bytes asks whether a process lives. Its NIC answers without the process, and does
// not count the question as a guess at a region.
func TestANICVouchesForItsLivingProcessesAlone(t *testing.T) {
	f := newFabric(t, 2, fault.Config{Seed: 1, Loss: 0.1, Reorder: 0.2})
	a, b, c := f.process(0, "a/0"), f.process(1, "b/0"), f.process(0, "c/0")
	f.known("a/0", "b/0")
	asks := func(what string, of *tester, gen uint32, region uint32, want vni.Status) {
		t.Helper()
		h := vni.Remote{NIC: of.e.ID(), Slot: of.slot, Gen: gen, Region: region}
		if c := a.finish(false, a.start(vni.CodeGet, &vni.SendContext{Flags: vni.WantNotify, Remote: h}, nil)); c.Status != want {
			t.Errorf("%s: %v; expected %v", what, c.Status, want)
		}
	}
	asks("a process of another NIC", b, b.gen, 0, vni.StatusOK)
	asks("a process of the same NIC", c, c.gen, 0, vni.StatusOK)
	asks("a later process of its slot", b, b.gen+1, 0, vni.StatusStaleGeneration)
	if n := f.engines[1].Count(vni.NICRefusedRegion); n != 0 {
		t.Errorf("%d regions were refused; expected none", n)
	}
	asks("a region of it that is not open", b, b.gen, 7, vni.StatusBadRegion)
	gen := b.gen
	b.exit()
	asks("a process that has ended", b, gen, 0, vni.StatusProcessGone)
	f.noLeaks()
}
