//go:build !linux

package idle

import "sync/atomic"

// YieldThread has nothing portable to call: the goroutine has yielded already.
func YieldThread() {}

var asked atomic.Int64

// switches is not known here. Each answer differs from the one before, so that loops always yield.
func switches() int64 { return asked.Add(1) }

// PreciseTimers does nothing here: only Linux lets a thread choose.
func PreciseTimers() {}

// MoveOff does nothing here: only Linux lets a thread choose.
func MoveOff() {}

// Room is not known here.
func Room() bool { return false }
