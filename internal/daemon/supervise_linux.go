package daemon

import (
	"context"
	"time"

	"github.com/weftnet/weft/internal/clock"
)

// A supervisor, such as systemd, restarts a daemon that runs but does not work. So the daemon
// notifies the watchdog only after each loop has made a turn. A timer would notify it even if a
// loop hangs.

// beatsPerWatchdog is the number of notifications in each period of the watchdog, so one late turn
// on a busy machine does no harm.
const beatsPerWatchdog = 3

// watch notifies the supervisor's watchdog of the progress of the loops until ctx is done.
func (h *door) watch(ctx context.Context) {
	every := h.supervisor.Watchdog() / beatsPerWatchdog
	if every <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	h.beat(ctx, tick.C)
}

// beat waits for a turn of each loop at each tick, and then notifies the supervisor.
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

// tellUnlessEnding tells the supervisor of a step of a reload. It tells nothing once the daemon
// goes down: STOPPING=1 is the last word.
func (h *door) tellUnlessEnding(tell func() error) {
	h.telling.Lock()
	defer h.telling.Unlock()
	if h.ctx.Err() == nil {
		h.told(tell())
	}
}

// tellEnd tells the supervisor that the daemon goes down. The context of the door is done.
func (h *door) tellEnd() {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.told(h.supervisor.Stopping())
}

// told logs that the supervisor could not be told.
func (h *door) told(err error) {
	if err != nil {
		h.links[0].log.Warn("the supervisor does not hear of this daemon", "error", err)
	}
}
