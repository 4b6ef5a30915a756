package gossip

import (
	"testing"

	"github.com/weftnet/weft/internal/trust"
)

func TestEachKeyOfAFabricHasAGossipKeyOfItsOwn(t *testing.T) {
	fabric := []trust.FabricKey{{1}, {2}}
	keys := Keys(fabric)
	if len(keys) != 2 || keys[0] == keys[1] {
		t.Fatalf("keys %x", keys)
	}
	for i, k := range fabric {
		if keys[i] != Key(k.Derive(trust.LabelGossip)) || keys[i] == Key(k) || keys[i] == Key(k.Derive(trust.LabelPSK)) {
			t.Errorf("key %d of the gossip is %x", i+1, keys[i])
		}
	}
}
