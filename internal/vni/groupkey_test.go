package vni

import (
	"math/rand/v2"
	"testing"

	"github.com/weftnet/weft/internal/limits"
)

func TestPartsOfGroupsHaveKeysOfTheirOwn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type part struct {
		leader Address
		count  uint32
	}
	pick := func() part { // values whose bits are adjacent in the key
		slots, counts := []uint16{1, 2, limits.MaxProcesses}, []uint32{0, 1, 1<<indexCount - 1, 1 << indexCount, PartsCounted - 1}
		return part{Address{NIC: rng.Uint64N(3) << (62 * rng.IntN(2)), Slot: slots[rng.IntN(3)], Gen: rng.Uint32N(3)}, counts[rng.IntN(5)]}
	}
	keys := map[Name]part{}
	for range 20_000 {
		p := pick()
		key := PartKey(p.leader, p.count)
		if !key.Valid() || !IsPart(&key) || Epoch(&key) != 0 {
			t.Fatalf("the key of %+v is %v", p, key)
		}
		if other, ok := keys[key]; ok && other != p {
			t.Fatalf("%+v and %+v have the same key", p, other)
		}
		keys[key] = p
		next, ok := NextEpoch(key)
		if _, met := keys[next]; !ok || met || Epoch(&next) != 1 || !SameGroup(&key, &next) {
			t.Fatalf("the next epoch of %+v has the key %v", p, next)
		}
	}
}

func TestAKeyHasNoEpochBeyondTheLast(t *testing.T) {
	joined, err := MakeName("solvers", 1<<31-1)
	if err != nil {
		t.Fatal(err)
	}
	part := PartKey(Address{NIC: 1, Slot: 1, Gen: 1}, 0)
	part.Index += 1<<epochBits - 1
	for _, key := range []Name{joined, part} {
		if next, ok := NextEpoch(key); ok {
			t.Errorf("behind the last epoch %d of %v there is %d", Epoch(&key), key, Epoch(&next))
		}
	}
	if other := PartKey(Address{NIC: 1, Slot: 1, Gen: 1}, 1); SameGroup(&part, &other) {
		t.Error("two parts of one leader are one group")
	}
}
