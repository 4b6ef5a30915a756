package daemon

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/ctl"
)

// settleWithin bounds how long a request about slots waits for ending jobs. A keeper whose ranks
// have ended takes some milliseconds.
const settleWithin = time.Second

// settle waits until enough slots are free, or no job is ending. A launcher returns as soon as
// its ranks have ended, a moment before its keepers have. Without the wait, the next job of a
// script would find those slots taken.
func (j *jobs) settle(ctx context.Context, enough func(free int) bool) {
	late := time.NewTimer(settleWithin)
	defer late.Stop()
	for {
		ending := j.ending(enough)
		if ending == nil {
			return
		}
		select {
		case <-ending.done:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ending returns a job that is ending, unless enough slots are free.
func (j *jobs) ending(enough func(free int) bool) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	if enough(j.slots() - j.taken) {
		return nil
	}
	for _, b := range j.all {
		if b.keeper != nil && b.slots > 0 && b.keeper.state() == ctl.JobEnding {
			return b
		}
	}
	return nil
}

// free answers a request for the number of free slots.
func (j *jobs) free(ctx context.Context) (*ctl.JobReply, int, error) {
	j.settle(ctx, func(free int) bool { return free == j.slots() })
	j.mu.Lock()
	defer j.mu.Unlock()
	return &ctl.JobReply{NIC: j.d.id, Name: j.d.host(), Slots: j.slots(), Free: j.slots() - j.taken}, 0, nil
}
