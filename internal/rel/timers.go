package rel

import "github.com/weftnet/weft/internal/clock"

// Timers is the hotel of an endpoint by itself, so that `weft bench netstar` can measure what a timer costs (NETSTAR-26). What it holds are numbers.
type Timers struct{ h *hotel[int] }

// timerTick is that of an endpoint's hotel.
const timerTick = hotelShift

// NewTimers makes one with room for so many timers at a time.
func NewTimers(most int) *Timers { return &Timers{newHotel[int](timerTick, most)} }

// Start starts a timer, and returns its number; 0 if there is no room.
func (t *Timers) Start(now, until clock.Time, what int) int32 { return t.h.checkIn(now, until, what) }

// Stop stops one that has not expired.
func (t *Timers) Stop(number int32) { t.h.checkOut(number) }

// Expired returns one that has expired by now, which is no timer any more. It is asked for until there is none.
func (t *Timers) Expired(now clock.Time) (what int, ok bool) { return t.h.evict(now) }
