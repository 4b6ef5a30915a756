package daemon

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/nic"
)

// A check of a node that is not there does not answer with the refusal of a NIC that was there once.
func TestARefusalOfLongAgoIsNoReasonOfACheck(t *testing.T) {
	now := clock.Time(time.Hour)
	within := (&settings{}).refusedAgainWithin()
	for _, c := range []struct {
		ago  time.Duration
		told bool
	}{{0, true}, {within, true}, {within + 1, false}} {
		all := []nic.Refusal{{NIC: 2, Addr: mem.Address(2), Why: names.ErrKnownID, Times: 1, Last: now.Add(-c.ago)}}
		if why := refusedAt(refusedSince(all, now.Add(-within)), mem.Address(2)); why != "" != c.told {
			t.Errorf("a refusal %v ago is told as %q; expected a reason: %v", c.ago, why, c.told)
		}
	}
}
