package daemon

import (
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/link/mem"
	"github.com/weftnet/weft/internal/names"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/rel"
)

// A check of an absent node does not report the refusal of a NIC that was there once.
func TestARefusalOfLongAgoIsNoReasonOfACheck(t *testing.T) {
	now := clock.Time(time.Hour)
	within := (&settings{}).refusedAgainWithin()
	for _, c := range []struct {
		ago  time.Duration
		told bool
	}{{0, true}, {within, true}, {within + 1, false}} {
		all := []nic.Refusal{{NIC: 2, Addr: mem.Address(2), Why: names.ErrKnownID, Times: 1, Last: now.Add(-c.ago)}}
		if why := refusedAt(refusedSince(all, now.Add(-within)), 0, mem.Address(2)); why != "" != c.told {
			t.Errorf("a refusal %v ago is told as %q; expected a reason: %v", c.ago, why, c.told)
		}
	}
}

// If a NIC is refused at the address where it was named, the check says so, even while the NIC is
// sought at its last address. Another NIC with the same id is not meant.
func TestACheckNamesARefusalAtAnotherAddress(t *testing.T) {
	for why, told := range map[error]bool{rel.ErrOutdated: true, names.ErrKnownID: false} {
		all := []nic.Refusal{{NIC: 2, Addr: mem.Address(2), Why: why, Times: 1}}
		if got := refusedAt(all, 2, mem.Address(3)); got != "" != told {
			t.Errorf("the refusal for %v is told as %q; expected a reason: %v", why, got, told)
		}
	}
}
