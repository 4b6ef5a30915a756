package nic

import (
	"slices"
	"testing"

	"github.com/weftnet/weft/internal/link/fault"
)

// QNIX-56, QNIX-57: each table is in its segment, and operations in progress are counted there.
func TestTheMemoryMapHasEveryTableOfTheNIC(t *testing.T) {
	f := newFabric(t, 1, fault.Config{})
	p, to := f.process(0, "a/0"), f.process(0, "b/0")
	p.wantSent(p.send("b/0", 1, 0, make([]byte, 500))) // unexpected, so it is staged
	want := []struct {
		segment string
		parts   []string
	}{
		{SegmentTable, []string{"entries"}},
		{SegmentDriver, []string{"commands"}},
		{SegmentInternal, []string{"NIC table", "name table", "group table", "driver info"}},
		{SegmentManaged, []string{"scheduling queue entries", "receive table entries", "descriptor maps", "staging buffers", "transit buffers", "process list nodes"}},
	}
	m := to.e.MemoryMap()
	if len(m) != len(want) {
		t.Fatalf("%d segments; expected %d", len(m), len(want))
	}
	used := make(map[string]SegmentPart)
	for i, s := range m {
		var parts []string
		for _, part := range s.Parts {
			parts = append(parts, part.Name)
			used[part.Name] = part
		}
		if s.Name != want[i].segment || !slices.Equal(parts, want[i].parts) {
			t.Errorf("segment %q has %q; expected %q with %q", s.Name, parts, want[i].segment, want[i].parts)
		}
	}
	if n := used["entries"].Used; n != 2 {
		t.Errorf("two processes take %d entries of the process table", n)
	}
	if n := used["receive table entries"].Used; n != 1 {
		t.Errorf("a message that waits for its receive takes %d entries of the receive table", n)
	}
	if n := used["staging buffers"].InUse; n != 512 {
		t.Errorf("a staged message of 500 bytes takes %d of staging; expected a buffer of 512", n)
	}
}
