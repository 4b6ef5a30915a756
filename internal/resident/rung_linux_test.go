package resident

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/program"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl/ebpf"
)

// The ring between the driver and the engine is bounded, and drops records if it is full. After
// many records the processes of all segments look, since nothing else wakes a sleeping process.
func TestBehindManyRecordsAllSegmentsRing(t *testing.T) {
	e := &engine{}
	e.table = program.New(program.Config{NIC: 7, Counts: make([]uint64, len(vni.Names()))}, e)
	for id := range uint32(4) {
		if err := e.table.AddSegment(id, vni.AlignedBytes(8+program.SegmentTail)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		records int
		want    []uint32
	}{{0, nil}, {1, []uint32{2}}, {ebpf.MostTold / 8, []uint32{1, 2}}, {ebpf.MostTold / 2, []uint32{0, 1, 2, 3}}, {ebpf.MostTold, []uint32{0, 1, 2, 3}}} {
		all := make([]uint32, c.records)
		for i := range all {
			all[i] = 2 - uint32(i%2)
		}
		e.rang = nil
		if rung(e.table, all); !slices.Equal(e.rang, c.want) {
			t.Errorf("%d records of the segments 1 and 2 ring %v, expected %v", c.records, e.rang, c.want)
		}
	}
}

// A batch takes the records that are there, waits for none but the first, and is bounded.
func TestABatchIsWhatIsThere(t *testing.T) {
	for _, there := range []int{1, 2, ebpf.MostTold - 1, ebpf.MostTold, ebpf.MostTold + 1, 3 * ebpf.MostTold} {
		left, waits := there, 0
		next := func(deadline time.Time) (uint32, error) {
			if deadline.IsZero() {
				waits++
			}
			if left == 0 {
				return 0, os.ErrDeadlineExceeded
			}
			left--
			return 1, nil
		}
		all, err := batch(next)
		if want := min(there, ebpf.MostTold); err != nil || len(all) != want || waits != 1 {
			t.Errorf("a batch of %d records has %d, %v, and waited for %d; expected %d and 1", there, len(all), err, waits, want)
		}
	}
	if all, err := batch(func(time.Time) (uint32, error) { return 0, os.ErrClosed }); err != os.ErrClosed || len(all) != 0 {
		t.Errorf("a batch of a ring that is closed: %v, %v", all, err)
	}
}
