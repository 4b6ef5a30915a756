package driver

import "testing"

// QNIX-59: the Process Flag Array holds the PID of the process at each entry, and 0 for a free
// one.
func TestTheFlagOfAnEntryIsThePIDOfItsProcess(t *testing.T) {
	d := NewQueue(3).Driver()
	for _, pid := range []uint32{4711, 42, 1} {
		i, ok := d.Take(pid)
		if !ok || d.flags[i] != pid {
			t.Errorf("entry %d of process %d has flag %d", i, pid, d.flags[i])
		}
	}
	d.GiveBack(2)
	if d.flags[2] != 0 {
		t.Errorf("a free entry has flag %d", d.flags[2])
	}
}
