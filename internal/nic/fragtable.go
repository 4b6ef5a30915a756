package nic

import (
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// fragTable finds the state of an active fragment of a pair (USNIC-37): slot = id mod 2048. It
// grows to the highest slot in use, which stays low, since ids are given out last in, first out.
type fragTable[T any] struct {
	ids  []wire.FragmentID
	vals []*T
	n    int
}

func (t *fragTable[T]) get(id wire.FragmentID) *T {
	i := int(id % limits.ActiveFragments)
	if id != 0 && i < len(t.ids) && t.ids[i] == id {
		return t.vals[i]
	}
	return nil
}

// set puts v at id. It returns false if the slot belongs to a later fragment; see older for an
// earlier one.
func (t *fragTable[T]) set(id wire.FragmentID, v *T) bool {
	i := int(id % limits.ActiveFragments)
	for i >= len(t.ids) {
		t.ids = append(t.ids, 0)
		t.vals = append(t.vals, nil)
	}
	if id == 0 || t.ids[i] != 0 {
		return false
	}
	t.ids[i], t.vals[i] = id, v
	t.n++
	return true
}

// older returns the fragment in the slot of id, if its own id is an earlier one. The peer reuses a
// slot when it has ended the fragment before, so our news of that end is late.
func (t *fragTable[T]) older(id wire.FragmentID) *T {
	i := int(id % limits.ActiveFragments)
	if i < len(t.ids) && t.ids[i] != 0 && int32(id-t.ids[i]) > 0 {
		return t.vals[i]
	}
	return nil
}

func (t *fragTable[T]) remove(id wire.FragmentID) {
	i := int(id % limits.ActiveFragments)
	if id != 0 && i < len(t.ids) && t.ids[i] == id {
		t.ids[i], t.vals[i] = 0, nil
		t.n--
	}
}

// all calls f for each active fragment, by slot.
func (t *fragTable[T]) all(f func(*T)) {
	for _, v := range t.vals {
		if v != nil {
			f(v)
		}
	}
}
