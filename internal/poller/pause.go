package poller

import (
	"sync"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/idle"
	"github.com/weftnet/weft/internal/limits"
)

// Pause is how a caller waits between polls for room at a receiver, which reads a hundred microseconds and more before it polls. The
// caller counts as one that is awake until End.
type Pause struct {
	begun clock.Time
	pace  idle.Pace
}

var pauses = sync.Pool{New: func() any { return new(Pause) }}

// Pause begins to wait.
func (p *Poller) Pause() *Pause {
	idle.Enter()
	w := pauses.Get().(*Pause)
	*w = Pause{begun: Now()}
	return w
}

// Rest waits a moment. It reports whether it was the last that is worth it.
func (w *Pause) Rest() (last bool) {
	now := Now()
	return now.Sub(w.begun) > limits.RoomWait || w.pace.Rest(now, idle.Relax, Now)
}

// End ends the wait.
func (w *Pause) End() {
	pauses.Put(w)
	idle.Leave()
}
