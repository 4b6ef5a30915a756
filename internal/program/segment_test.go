package program

import (
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/prog"
	"github.com/weftnet/weft/pdl/vm"
)

// The language numbers locks and flags in their order behind the segments here.
func TestASegmentHasTheLocksThatTheLanguageNumbers(t *testing.T) {
	if limits.SegmentWords != prog.SegmentLocks {
		t.Errorf("a segment has %d locks, and the language numbers %d", limits.SegmentWords, prog.SegmentLocks)
	}
}

// A lock or flag of a missing segment is no error: the lock is clear, and writes to either are
// lost.
func TestLocksAndFlagsOfNoSegmentAreClearAndLost(t *testing.T) { // PANIC-24
	n := newNIC(t)
	n.put(5, `PROGRAM p: VAR least; TRIGGERS 1; BEGIN least = -9223372036854775808 END;
MESSAGE 1: BEGIN SET FLAG PACKET[0]; CLEAR LOCK PACKET[0]; DISPLAY LOCK(PACKET[0]) END; END;`)
	for _, number := range []uint64{0, 300, 1 << 39, 1 << 40, 1<<64 - 1, 1 << 63} {
		if err := n.Post(5, 1, words(number)); err != nil {
			t.Fatal(err)
		}
		n.run(2)
	}
	info, _ := n.Info(5)
	if got := n.shown(5); len(got) != 6 || max(got[0], got[1], got[2], got[3], got[4], got[5]) != 0 || info.Profile.Aborted() != 0 {
		t.Errorf("locks of no segment are %v, and %d activations were aborted", got, info.Profile.Aborted())
	}
	mem := vni.AlignedBytes(8 + SegmentTail)
	if err := n.AddSegment(1, mem); err != nil {
		t.Fatal(err)
	}
	locks, flags := SegmentSync(mem)
	locks[44] = 1
	for _, number := range []uint64{300, 1<<64 - 1, 1 << 63} {
		if err := n.Post(5, 1, words(number)); err != nil {
			t.Fatal(err)
		}
		n.run(2)
	}
	if locks[44] != 0 || flags[44] != 1 {
		t.Errorf("lock 300 is %d and flag 300 is %d when there is segment 1", locks[44], flags[44])
	}
	for i, flag := range flags {
		if i != 44 && flag != 0 {
			t.Errorf("flag %d of segment 1 is set", i)
		}
	}
}

// A transfer to or from a missing segment is an error.
func TestATransferOfNoSegmentIsRefused(t *testing.T) { // PANIC-32
	n := newNIC(t)
	n.put(5, `PROGRAM p: VAR v; TRIGGERS 1, 2; BEGIN END; MESSAGE 1: BEGIN DELIVER v OFFSET 0 INTO PACKET[0] LEN 8 END;
MESSAGE 2: BEGIN GET v OFFSET 0 FROM PACKET[0] LEN 8 END; END;`)
	for _, number := range []uint64{1, 1 << 32, 1<<64 - 1} {
		for trigger := range uint32(2) {
			if err := n.Post(5, 1+trigger, words(number)); err != nil {
				t.Fatal(err)
			}
			n.run(2)
		}
	}
	if info, _ := n.Info(5); info.Profile.Aborts[vm.SegmentRefused] != 6 {
		t.Errorf("%d transfers were refused, want 6", info.Profile.Aborts[vm.SegmentRefused])
	}
}
