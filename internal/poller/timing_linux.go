package poller

import (
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/histogram"
	"github.com/weftnet/weft/internal/vni"
)

// timing measures the polls of a loop. It does not measure a poll that finds nothing: one more
// reading of the clock would cost as much as such a poll.
type timing struct {
	page vni.LoopPage
	loop vni.Loop
	due  clock.Time // last deadline of the engine; 0: none, or at once

	unpublished bool
	next        clock.Time // earliest time of the next copy to the page
}

// publishEvery is how often a busy loop copies its measurements to the page, also if it parks after
// each message. A copy takes about 300 ns.
const publishEvery = time.Millisecond

// polled records a poll that began at now, found work, and asked for the next poll at next.
func (t *timing) polled(now clock.Time, work int, next clock.Time) {
	if t.due != 0 && now >= t.due {
		measure(&t.loop.Lags, now.Sub(t.due), &t.loop.LongestLagAt)
		t.unpublished = true
	}
	t.due = 0
	if next > now && next != clock.Never {
		t.due = next
	}
	if work > 0 {
		measure(&t.loop.Polls, Now().Sub(now), &t.loop.LongestPollAt)
		t.unpublished = true
	}
	if t.unpublished && now >= t.next {
		t.next = now.Add(publishEvery)
		t.publish()
	}
}

// parks copies the measurements before a sleep that may last longer than publishEvery. Before a
// shorter one there is no hurry: the poll after it takes care of them.
func (t *timing) parks(now, next clock.Time) {
	if next > now.Add(publishEvery) {
		t.publish()
	}
}

// publish copies the measurements to the page, if they have changed.
func (t *timing) publish() {
	if t.unpublished {
		t.unpublished = false
		t.page.Store(&t.loop)
	}
}

// measure records a duration. If it is the longest, measure notes the time of day.
func measure(h *histogram.Histogram, d time.Duration, longestAt *int64) {
	if *longestAt == 0 || d > time.Duration(h.Most) {
		*longestAt = time.Now().UnixNano()
	}
	h.Record(d)
}
