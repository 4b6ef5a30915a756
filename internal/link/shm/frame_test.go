package shm

import (
	"testing"

	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/wire"
)

// A full piece of a long message begins and ends on a cache line, and full pieces leave no part
// of the ring unused.
func TestFullPiecesFillTheRingLineByLine(t *testing.T) {
	if r := int(record(limits.ShmFrame)); limits.ShmRing%r != 0 || r != recordHead+limits.ShmFrame {
		t.Errorf("a full frame of %d bytes takes a record of %d, of a ring of %d", limits.ShmFrame, r, limits.ShmRing)
	}
	if head := recordHead + wire.OuterLen + wire.InnerLen + wire.ChunkLen; head%line != 0 {
		t.Errorf("payload begins %d bytes behind the beginning of a record; expected a multiple of %d", head, line)
	}
}
