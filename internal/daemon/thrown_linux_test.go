package daemon

import (
	"fmt"
	"testing"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/limits"
)

// A program that returns again and again has one entry, so that it displaces no other from the
// table.
func TestTheTableOfThrownOutProcessesHasOneEntryForEachProgram(t *testing.T) {
	d := &Daemon{door: newDoor(Config{})}
	out := func(pid, uid int) { d.remember(ctl.Thrown{PID: pid, UID: uid, Times: 1}) }
	out(1, 1)
	out(2, 1)
	out(2, 2) // of another user, in another PID namespace
	for range 3 * limits.ThrownOut {
		out(2, 1)
	}
	out(1, 1)
	want := fmt.Sprint([][3]uint64{{2, 2, 1}, {2, 1, 3*limits.ThrownOut + 1}, {1, 1, 2}})
	var got [][3]uint64
	for _, p := range d.thrownOut() {
		got = append(got, [3]uint64{uint64(p.PID), uint64(p.UID), uint64(p.Times)})
	}
	if fmt.Sprint(got) != want {
		t.Errorf("thrown out, by PID, UID and times: %v; expected %v", got, want)
	}
	for pid := range limits.ThrownOut {
		out(100+pid, 1)
	}
	if all := d.thrownOut(); len(all) != limits.ThrownOut || all[0].PID != 100 || all[len(all)-1].PID != 99+limits.ThrownOut {
		t.Errorf("%d entries; expected the latest %d", len(all), limits.ThrownOut)
	}
}
