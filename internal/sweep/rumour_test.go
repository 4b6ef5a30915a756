package sweep

import (
	"testing"

	"github.com/weftnet/weft/internal/mutate"
)

func TestAHostileRelayAltersNothingThatAProcessReceives(t *testing.T) {
	for seed := range uint64(seeds(10, 100, 1000)) {
		found, altered := runRumour(seed+1, mutate.None)
		for _, v := range found {
			t.Errorf("seed %d: %s", seed+1, v)
		}
		if altered == 0 {
			t.Errorf("seed %d: nothing was altered", seed+1)
		}
	}
}

func TestAMACThatIsNotCheckedIsFoundAtOnce(t *testing.T) {
	for seed := range uint64(2) { // one of them has sealed links
		if found, _ := runRumour(seed+1, mutate.RelayMacUnchecked); len(found) == 0 {
			t.Errorf("seed %d: no violation though altered relays are taken", seed+1)
		}
	}
}
