package sweep

import (
	"testing"

	"github.com/weftnet/weft/internal/mutate"
)

func TestALiarHarmsNeitherBystandersNorNewcomers(t *testing.T) {
	for seed := range uint64(20) {
		found, told := runHearsay(seed+1, mutate.None)
		for _, v := range found {
			t.Errorf("seed %d: %s", seed+1, v)
		}
		if told < phantoms {
			t.Errorf("seed %d: the liar has sent %d records", seed+1, told)
		}
	}
}
