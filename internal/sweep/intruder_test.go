package sweep

import (
	"reflect"
	"testing"

	"github.com/weftnet/weft/internal/mutate"
)

func TestAttackersChangeNothingForHonestNICs(t *testing.T) {
	var all Faults
	for seed := range uint64(seeds(8, 48, 1000)) {
		found, attacks := runIntruder(seed+1, mutate.None)
		for _, v := range found {
			t.Errorf("seed %d: %s", seed+1, v)
		}
		addFields(reflect.ValueOf(&all.Attacks).Elem(), reflect.ValueOf(attacks))
	}
	if m := missing(reflect.ValueOf(&all.Attacks).Elem()); len(m) > 0 {
		t.Errorf("attacks that never happened: %v", m)
	}
	t.Logf("%+v", all.Attacks)
}

func TestAnAttackedSeedRepeatsItself(t *testing.T) {
	for seed := range uint64(4) {
		a, attacks := runIntruder(seed+1, mutate.None)
		b, again := runIntruder(seed+1, mutate.None)
		if attacks != again || !reflect.DeepEqual(a, b) {
			t.Errorf("seed %d: %+v and %+v", seed+1, attacks, again)
		}
	}
}
