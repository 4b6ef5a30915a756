package program

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

const called = "PROGRAM %s: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN END; END;"

// After any load, replacement, unload or undo, a name means the program with the lowest number
// among those that have it.
func TestANameIsThatOfTheLowestNumberAmongThoseThatThereAre(t *testing.T) {
	n := newNIC(t)
	random := rand.New(rand.NewPCG(1, 1))
	names := []string{"a", "b", "c"}
	seen := make(map[int]bool) // how many programs have had a name
	for range 2000 {
		id := vm.ID(1 + random.IntN(6))
		m := module(t, fmt.Sprintf(called, names[random.IntN(3)]))
		switch random.IntN(3) {
		case 0:
			_ = n.Unload(id) // if it is there
		case 1:
			if _, _, err := n.Load(Spec{Module: m, ID: id, Replace: true}); err != nil {
				t.Fatal(err)
			}
		default:
			key, _, err := n.Prepare(Spec{Module: m, ID: id, Replace: true})
			if err == nil {
				_, _, err = n.Commit(key)
			}
			if err == nil {
				err = n.Undo(key)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			var all []vm.ID
			for _, id := range slices.Sorted(maps.Keys(n.loaded)) {
				if n.loaded[id].spec.Module.Name == name {
					all = append(all, id)
				}
			}
			seen[len(all)] = true
			got, ok := n.Lookup(prog.ProgramName, name, ownNIC)
			if ok != (len(all) > 0) || ok && vm.ID(got) != all[0] {
				t.Fatalf("%s is %d, %v; programs %v are called so", name, got, ok, all)
			}
		}
	}
	if !seen[0] || !seen[1] || !seen[3] {
		t.Errorf("names were those of so many programs: %v", seen)
	}
}

// The same holds for programs of another NIC, as far as it has told of them.
func TestANameAtAnotherNICIsThatOfTheLowestNumberThereToo(t *testing.T) {
	_, e, tell := newTeller(t)
	n := newNIC(t)
	var pr Peer
	for _, c := range []struct {
		id   vm.ID
		name string
		gone bool
		want directory
	}{
		{5, "a", false, directory{"a": 5}},
		{7, "a", false, directory{"a": 5}},
		{3, "b", false, directory{"a": 5, "b": 3}},
		{4, "a", false, directory{"a": 4, "b": 3}},
		{4, "b", false, directory{"a": 5, "b": 3}},
		{3, "b", true, directory{"a": 5, "b": 4}},
		{5, "a", true, directory{"a": 7, "b": 4}},
		{7, "a", true, directory{"b": 4}},
	} {
		tell(c.id, c.name, c.gone)
		if !n.Take(&pr, e.news[len(e.news)-1]) || !maps.Equal(pr.names, c.want) {
			t.Fatalf("with %d (%s, gone: %v) names are %v; want %v", c.id, c.name, c.gone, pr.names, c.want)
		}
	}
	n.forgetAnnounced(&pr)
	if len(pr.names) > 0 {
		t.Errorf("behind the session names are %v", pr.names)
	}
}

// An activation pays for a lookup as for any instruction: it allocates nothing, however many
// programs there are.
func TestANameIsLookedUpWithoutMemory(t *testing.T) { // decision 16
	n := newNIC(t)
	for id := range vm.ID(60) {
		n.put(id+1, fmt.Sprintf(called, fmt.Sprint("p", id)))
	}
	if got := testing.AllocsPerRun(100, func() {
		if id, ok := n.Lookup(prog.ProgramName, "p58", 0); !ok || id != 59 {
			t.Fatal(id, ok)
		}
	}); got != 0 {
		t.Errorf("a name among 60 programs' allocates %v times", got)
	}
}
