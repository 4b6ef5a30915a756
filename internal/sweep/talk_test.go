package sweep

import (
	"testing"

	"github.com/weftnet/weft/internal/mutate"
)

func TestTalksKeepEveryPromise(t *testing.T) {
	ways := Ways{}
	for seed := range uint64(seeds(20, 150, 1000)) {
		found, w := runTalk(seed+1, mutate.None)
		for _, v := range found {
			t.Errorf("seed %d: %s", seed+1, v)
		}
		ways.add(w)
	}
	if ways["reliable met"] == 0 || ways["lossy met"] == 0 {
		t.Errorf("no message was met over one kind of link: %s", ways)
	}
	t.Log(ways)
}
