package sweep

import (
	"testing"

	"github.com/weftnet/weft/internal/mutate"
)

func TestABadNICHarmsNobodyElse(t *testing.T) {
	for seed := range uint64(20) {
		found, records := runAsylum(seed+1, mutate.None)
		for _, v := range found {
			t.Errorf("seed %d: %s", seed+1, v)
		}
		if records < asylumRecords/2 {
			t.Errorf("seed %d: the bad NIC has sent %d records of nonsense", seed+1, records)
		}
	}
}
