package program

import (
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/vm"
)

// A teller is the engine of a NIC that keeps the news for a peer.
type teller struct {
	*lone
	news [][]byte
}

func (e *teller) Announce(_ *Peer, n int) []byte {
	b := make([]byte, n)
	e.news = append(e.news, b)
	return b
}

// newTeller returns a NIC that tells of programs.
func newTeller(t *testing.T) (*Table, *teller, func(id vm.ID, name string, gone bool)) {
	e := &teller{lone: newNIC(t).engine}
	table := New(Config{NIC: 8}, e)
	return table, e, func(id vm.ID, name string, gone bool) {
		table.tell(nil, &loaded{id: id, spec: Spec{Module: module(t, "PROGRAM "+name+": TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN END; END;")}}, gone)
	}
}

// Records arrive in any order, since a lost one arrives later. The order in which they were told
// counts.
func TestNewsOfAProgramCountInTheOrderInWhichTheyWereTold(t *testing.T) {
	_, e, tell := newTeller(t)
	tell(5, "first", false)
	tell(5, "first", true)
	tell(5, "second", false)
	tell(6, "other", false)
	tell(6, "other", true)
	for order := range permutations(5) {
		n := newNIC(t)
		var pr Peer
		for _, i := range order {
			if !n.Take(&pr, slices.Clone(e.news[i])) {
				t.Fatalf("record %d is refused", i)
			}
		}
		if five, six := pr.programs[5].name, pr.programs[6].name; five != "second" || six != "" {
			t.Fatalf("in the order %v the NIC believes that 5 is %q and 6 is %q", order, five, six)
		}
	}
}

// permutations yields all orders of the numbers below n.
func permutations(n int) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		var extend func(order []int) bool
		extend = func(order []int) bool {
			if len(order) == n {
				return yield(order)
			}
			for i := range n {
				if !slices.Contains(order, i) && !extend(append(slices.Clone(order), i)) {
					return false
				}
			}
			return true
		}
		extend(nil)
	}
}

// The knowledge of another NIC's programs is bounded, however many come and go there, and however
// often the record number wraps.
func TestNewsOfProgramsThatHaveGoneAreForgotten(t *testing.T) {
	table, e, tell := newTeller(t)
	table.news -= 700
	n := newNIC(t)
	var pr Peer
	tell(1, "stays", false)
	for id := range vm.ID(10 * limits.Programs) {
		tell(id+2, "goes", false)
		tell(id+2, "goes", true)
	}
	for _, b := range e.news {
		if !n.Take(&pr, b) {
			t.Fatal("a record is refused")
		}
	}
	if len(pr.programs) > 2*limits.Programs || pr.programs[1].name != "stays" || n.counts[vni.DropFormat] != 0 {
		t.Errorf("%d programs are known, among them %q; %d records were dropped", len(pr.programs), pr.programs[1].name, n.counts[vni.DropFormat])
	}
}
