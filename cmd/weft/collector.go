package main

import (
	"runtime/debug"
	"time"
)

const (
	startPercent = 400         // the first collection comes at 16 MiB instead of 4 MiB
	startLasts   = time.Second // after this time, the usual percentage holds
)

// collectLater defers garbage collection while a command starts. A short job ends before the
// first collection, which would take a processor from its ranks.
func collectLater() {
	usual := debug.SetGCPercent(startPercent)
	if usual < 0 || usual >= startPercent { // set by GOGC
		debug.SetGCPercent(usual)
		return
	}
	time.AfterFunc(startLasts, func() { debug.SetGCPercent(usual) })
}
