package poller

import (
	"sync"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
)

// pause is a caller's wait between polls for room at a receiver, which may read for a hundred
// microseconds and more before it polls. The caller counts as awake until End.
type pause struct {
	begun clock.Time
	pace  idle.Pace
}

var pauses = sync.Pool{New: func() any { return new(pause) }}

// Pause begins to wait. By this method a Poller is a nic.Turns.
func (p *Poller) Pause() nic.Pause {
	idle.Enter()
	w := pauses.Get().(*pause)
	*w = pause{begun: Now()}
	return w
}

// Rest waits a moment. It reports whether further waiting is not worthwhile.
func (w *pause) Rest() (last bool) {
	now := Now()
	return now.Sub(w.begun) > limits.RoomWait || w.pace.Rest(now, idle.Relax, Now)
}

// End ends the wait.
func (w *pause) End() {
	pauses.Put(w)
	idle.Leave()
}
