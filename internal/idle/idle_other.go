//go:build !linux

package idle

import "sync/atomic"

// YieldThread does nothing, as there is no portable call. Callers have let other goroutines run
// already.
func YieldThread() {}

var asked atomic.Int64

// switches cannot ask this system. It returns a new number each time, so that loops always
// yield.
func switches() int64 { return asked.Add(1) }

// PreciseTimers does nothing: only Linux lets a thread choose.
func PreciseTimers() {}

// MoveOff does nothing: only Linux lets a thread choose.
func MoveOff() {}

// Room returns false: this system does not tell.
func Room() bool { return false }
