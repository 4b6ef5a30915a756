package nic

import (
	"errors"
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/vni"
)

func TestAProcessIsRefusedANameThatItsNICMayNotHave(t *testing.T) {
	f := newWideFabric(t, 1472, 2, fault.Config{}, func(c *Config) {
		c.MayClaim = func(nic uint64, application string) bool { return nic != 1 || application == "a" }
	})
	f.process(0, "a/0")
	f.process(1, "b/0")
	p := f.claim(0, "b/1")
	f.step()
	if !p.claimed() || !errors.Is(p.refused, names.ErrForbidden) {
		t.Errorf("the registration is over: %v, with %v", p.claimed(), p.refused)
	}
	f.known("a/0", "b/0")
	if n := f.engines[0].Count(vni.NICNamesForbidden); n != 1 {
		t.Errorf("%d refusals are counted", n)
	}
	f.noLeaks()
}
