package nic

import (
	"bytes"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/vni"
)

// The network loses and reorders frames, and not all bytes may be permitted at once. So the
// permission of the rest would sometimes arrive before the GET, where it has no meaning.
func TestManyGETsAtOnceEndThoughRecordsOvertakeOneAnother(t *testing.T) { // USNIC-54
	const n, many = 50_000, 32
	f := newFabric(t, 0, fault.Config{})
	for id := range uint64(2) {
		f.addNIC(id+1, 1, fault.Config{Seed: 3, Loss: 0.1, Reorder: 0.2}, func(c *Config) { c.ReceiveCapacity = 32 * limits.StagedMessage })
	}
	if err := f.engines[1].AddNode(1, f.engines[0].cfg.Link.Addr()); err != nil {
		t.Fatal(err)
	}
	a, b := f.process(0, "a/0"), f.process(1, "b/0")
	f.known("a/0", "b/0")
	there := pattern(n, 1)
	id, key, err := b.e.AddRegion(b.slot, there)
	if err != nil {
		t.Fatal(err)
	}
	h := vni.Remote{NIC: b.e.ID(), Slot: b.slot, Gen: b.gen, Region: id, Key: key}
	for range 20 {
		var gets []int
		var bufs [][]byte
		for range many {
			buf := make([]byte, n)
			bufs = append(bufs, buf)
			gets = append(gets, a.start(vni.CodeGet, &vni.SendContext{Flags: vni.WantNotify, Remote: h}, buf))
			f.step() // each leaves in a separate frame
		}
		for i, g := range gets {
			if c := a.finish(false, g); c.Status != vni.StatusOK || !bytes.Equal(bufs[i], there) {
				t.Fatalf("a GET ended with %v, whole: %v", c.Status, bytes.Equal(bufs[i], there))
			}
		}
	}
	f.noLeaks()
}
