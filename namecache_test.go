package weft

import (
	"errors"
	"testing"

	"github.com/weftnet/weft/internal/vni"
)

// Names that share one place of the cache stay distinct, whether they came from a send or from a
// receive.
func TestNamesThatMeetInTheCacheStayApart(t *testing.T) {
	var c nameCache
	names := []Name{{"alpha", 1}, {"alpha", 65}, {"a", 1}, {"aleph", 129}, {"beta", 0}}
	for _, n := range names {
		if k := c.known(&n); k != nil {
			t.Errorf("%v is known as %v before it was learnt", n, k.name)
		}
		vn, err := n.vni()
		if err != nil {
			t.Fatal(err)
		}
		if k := c.learn(n); k.bad != nil || k.name != n || k.dest.Name != vn {
			t.Errorf("%v is learnt as %v, %v", n, k.name, k.bad)
		}
		if k := c.known(&n); k != nil && k.dest.Name != vn {
			t.Errorf("%v is known as %v", n, k.dest.Name)
		}
	}
	for range 2 {
		for _, n := range names {
			vn, _ := n.vni()
			if got := c.name(&vn); got != n {
				t.Errorf("%v is heard as %v", n, got)
			}
			if k := c.known(&n); k == nil || k.dest.Name != vn {
				t.Errorf("%v has been heard just now, and is not known", n)
			}
		}
	}
	if got := c.name(&vni.AnyProcess); got != AnyProcess {
		t.Errorf("AnyProcess is heard as %v", got)
	}
	if k := c.learn(Name{"Nobody", 0}); !errors.Is(k.bad, ErrBadArgument) || c.known(&k.name) != nil {
		t.Errorf("a name that no process can have is learnt: %v", k.bad)
	}
	if c.known(&Name{}) != nil {
		t.Error("the empty name is known")
	}
}
