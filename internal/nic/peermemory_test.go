package nic

import (
	"runtime"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/link/mem"
)

// The state of another NIC takes memory as long as that NIC is there, even if nothing is in
// flight. So it is bounded, and docs/nic.md states the amount.
func TestAPeerCostsWhatIsStated(t *testing.T) { // P13
	const many = 100
	f := &fabric{t: t, now: clock.Time(time.Hour), sw: mem.NewSwitch(mem.Config{MTU: 1472})}
	for id := range uint64(many + 1) {
		f.addNIC(id+1, 1, fault.Config{}, func(c *Config) { c.Static = true })
	}
	held := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	hub := f.engines[0]
	f.step()
	before := held()
	for id := uint64(2); id <= many+1; id++ {
		if err := hub.AddNode(id, mem.Address(int(id))); err != nil {
			t.Fatal(err)
		}
		if err := f.engines[id-1].AddNode(1, mem.Address(1)); err != nil {
			t.Fatal(err)
		}
	}
	f.until(time.Minute, "all sessions", func() bool {
		up := 0
		for _, p := range hub.peers.list {
			if p.ep.Up() {
				up++
			}
		}
		return up == many
	})
	for range 1000 { // news has been exchanged and acknowledged, and its memory is freed
		f.step()
	}
	// The hub has an endpoint for each of the others, and each of them has one for the hub.
	each := (held() - before) / (2 * many)
	t.Logf("an idle peer: %d bytes", each)
	if each > limits.IdlePeerBytes || each < limits.IdlePeerBytes/4 {
		t.Errorf("an idle peer costs %d bytes; at most are %d", each, limits.IdlePeerBytes)
	}
}
