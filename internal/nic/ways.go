package nic

import (
	"github.com/weftnet/weft/internal/rel"
	"github.com/weftnet/weft/internal/vni"
)

// Way is a way that a message has taken and that the counters do not distinguish, since users need
// not. The simulator does: it does not test a way that it never takes.
type Way int

const (
	WayPosted     Way = iota // out, by Post: in one step
	WayPostedKept            // out, by Post: in one step, and kept after it had left
	WayFrame                 // out, by Send: in the link's own frame
	WaySingle                // in a separate frame, and kept after it had left
	WaySegment               // in a segment
	WayKept                  // in several frames, from a copy that was kept
	WayRunFrame              // out, with others: in the link's own frame
	WayRunSegment            // in a segment
	WayRunKept               // in several frames, from a copy that was kept
	WayRunAwaited            // runs that have waited for credit
	WayRunPacked             // in, with others: into a batch at once
	WayRunApart              // one by one
	WayCalled                // calls whose reply is awaited by a receive of the same step
	WayPlaced                // in: a piece of a long message, straight into its place
	WayPlacedRun             // several pieces at once
	WayEarly                 // in, by a poll that ended early
	wayCount
)

// WayNames holds the names of the ways, in their order.
var WayNames = [wayCount]string{"posted", "posted_kept", "frame", "single", "segment", "kept", "run_frame",
	"run_segment", "run_kept", "run_awaited", "run_packed", "run_apart", "called", "placed", "placed_run", "early"}

// wayOf and runWayOf hold the ways of messages that leave by themselves, and with others.
var (
	wayOf    = [...]Way{rel.AsFrame: WayFrame, rel.AsSingle: WaySingle, rel.AsPart: WaySegment}
	runWayOf = [...]Way{rel.AsFrame: WayRunFrame, rel.AsPart: WayRunSegment}
)

// Ways returns how many messages, pieces or polls have taken each way.
func (e *Engine) Ways() [wayCount]uint64 {
	e.begin()
	return e.ways
}

// directSends returns how many messages have left by direct calls.
func (e *Engine) directSends() (n uint64) {
	for _, k := range e.ways[WayPosted : WayRunKept+1] {
		n += k
	}
	return n
}

// countLeft counts messages of p that have left by a direct call.
func (e *Engine) countLeft(p *process, way Way, messages, bytes uint64) {
	e.countSent(p, messages, bytes)
	e.ways[way] += messages
	e.counts[vni.NICCopiedOut] += bytes
	if way == WaySegment || way == WayRunSegment { // from there into its frame
		e.counts[vni.NICCopiedOut] += bytes
	}
}
