package vm_test

import (
	"errors"
	"testing"

	"github.com/weftnet/weft/pdl/vm"
	"github.com/weftnet/weft/pdl/vm/mem"
)

// A transfer in flight writes to the memory that its program had when the transfer began. So the
// program stays there, even if another then finds no room.
func TestAProgramWithATransferInFlightIsNotMoved(t *testing.T) { // PANIC-12
	f := mem.NewFabric()
	small := compile(t, handler("VAR a, b, v[250];", "GET a OFFSET 0 FROM 1 LEN 8; b = a + 1"))
	large := compile(t, handler("VAR v[506];", "v[0] = 1"))
	if large.DataWords <= small.DataWords || large.DataWords > 2*small.DataWords {
		t.Fatalf("the large program has %d words, the small one %d", large.DataWords, small.DataWords)
	}
	n, err := f.Add(1, "one", vm.Config{CodeWords: 4096, DataWords: 3 * small.DataWords, Programs: 8, Budget: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []vm.ID{9, 1} {
		if _, err := n.Machine.Load(id, small); err != nil {
			t.Fatal(err)
		}
		n.Machine.Start(id)
	}
	copy(n.Segment(1, 8), words(5))
	f.Late = true
	c := &check{t, n.Machine}
	if o := c.dispatch(1, nil); o != vm.Waiting {
		t.Fatal(o)
	}
	if err := n.Machine.Unload(9); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Machine.Load(2, large); !errors.Is(err, vm.ErrNoRoom) {
		t.Errorf("a program that fits nowhere as long as another cannot be moved: %v", err)
	}
	f.Run(1)
	c.variable("a", 5)
	c.variable("b", 6)
	if _, err := n.Machine.Load(2, large); err != nil {
		t.Errorf("the same program when the transfer has ended: %v", err)
	}
	c.variable("a", 5)
	c.variable("b", 6)
}
