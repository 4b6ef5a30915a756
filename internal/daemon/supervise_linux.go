package daemon

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// A supervisor, such as systemd, restarts a daemon that lives but does not work. So its watchdog
// hears of the daemon only after each loop has made a turn: a timer would go on beside a loop that
// hangs.

// beatsPerWatchdog is how often the watchdog is told within its time, so that one late turn of a
// busy machine does not count.
const beatsPerWatchdog = 3

// watch tells the supervisor's watchdog of the progress of the loops until ctx is done.
func (h *door) watch(ctx context.Context) {
	every := h.supervisor.Watchdog() / beatsPerWatchdog
	if every <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	h.beat(ctx, tick.C)
}

// beat waits for a turn of each loop at each tick, and then tells the supervisor.
func (h *door) beat(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		for _, d := range h.links {
			d.loop.Do(func(clock.Time) {})
		}
		h.told(h.supervisor.Alive())
	}
}

// told logs that the supervisor could not be told.
func (h *door) told(err error) {
	if err != nil {
		h.links[0].log.Warn("the supervisor does not hear of this daemon", "error", err)
	}
}
